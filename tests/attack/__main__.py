"""``python -m tests.attack``: the table of what each shape of request costs everyone else."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kafka_common.protocol.api_versions import APIS, ApiKey
from tests.attack.campaign import HUGE_ITEMS, Campaign, huge_messages, random_messages, table
from tests.attack.comparison import compared, save
from tests.attack.connections import offered
from tests.attack.targets import Target, broker_target, quorum_target
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

_LOGIN: tuple[int, ...] = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def main() -> None:
    """Attacks one target with every huge shape and prints what each cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--target", choices=("broker", "guarded", "quorum"), default="broker")
    parser.add_argument("--kafka", action="store_true", help="attack Kafka 3.9.1, not ours")
    parser.add_argument("--items", type=int, default=HUGE_ITEMS, help="of a huge array, 0: none")
    parser.add_argument("--api", action="append", help="only these APIs, by name")
    parser.add_argument("--random", type=int, default=0, help="so many random requests as well")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="each row at once as well")
    parser.add_argument("--dir", type=Path, help="keep data and logs in this new folder")
    parser.add_argument("--save", type=Path, help="write the run to this file")
    parser.add_argument("--name", help="of the run in a comparison")
    parser.add_argument("--compare", type=Path, nargs="+", help="print saved runs side by side")
    parser.add_argument("--rows", type=int, default=60, help="rows to print")
    arguments = parser.parse_args()
    if arguments.compare:
        print(compared(arguments.compare))
        return
    with nullcontext(arguments.dir) if arguments.dir else TemporaryDirectory() as folder:
        directory = Path(folder)
        if arguments.target == "quorum":
            _attack(quorum_target(directory / "quorum"), arguments)
            return
        with EmbeddedZooKeeper(directory / "zookeeper") as zookeeper:
            target = broker_target(
                f"{zookeeper.connect}/attack",
                directory,
                is_guarded=arguments.target == "guarded",
                is_real=arguments.kafka,
            )
            _attack(target, arguments)


def _attack(starting: AbstractContextManager[Target], arguments: argparse.Namespace) -> None:
    with starting as target:
        campaign = Campaign(target)
        versions = offered(target.address, target.credentials)
        try:
            for api_key, (_, last) in versions.items() if arguments.items else ():
                if arguments.api and APIS[api_key].name not in arguments.api:
                    continue
                for asked in huge_messages(api_key, last, items=arguments.items):
                    row = campaign.send(asked)
                    if arguments.verbose or row.problem:
                        print(table([row]).splitlines()[-1], row.problem, flush=True)
                    if not row.is_alive:
                        return
            random = Random(arguments.seed)
            for asked in random_messages(versions, random, arguments.random):
                row = campaign.send(asked, patience_s=2)
                if row.problem:
                    print(f"{asked.name}: {row.problem}", asked.data.hex()[:400], flush=True)
                if not row.is_alive:
                    return
        finally:
            rows = sorted(campaign.rows, key=lambda row: -row.longest_wait_ms)
            print(table(rows[: arguments.rows]))
            if arguments.save:
                save(arguments.save, arguments.name or target.name, campaign.rows)
            print(f"{len(campaign.rows)} requests, seed {arguments.seed}, {target.name}")


if __name__ == "__main__":
    main()
