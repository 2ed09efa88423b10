"""``zkctl completion``: prints the scripts with which shells complete zkctl's command lines."""

from __future__ import annotations

import click

from zkcontroller_cli.console.options import VerbGroup


@click.group("completion", cls=VerbGroup, uses_contexts=False)
def command() -> None:
    """The script that completes zkctl in bash, zsh and fish.

    Completed are verbs, options, and values: topics, partitions, brokers and groups of the cluster
    that the command line is about, contexts, and keys of configurations. The cluster is asked for
    0.3 seconds at most, and a failure shows nothing.
    """


@command.command("bash")
def bash() -> None:
    """The script for bash 4.4 or newer.

    For this shell alone: eval "$(zkctl completion bash)"

    Examples:
      zkctl completion bash > ~/.local/share/bash-completion/completions/zkctl
    """
    _print("bash")


@command.command("zsh")
def zsh() -> None:
    """The script for zsh, whose completion must be on (compinit).

    For this shell alone: eval "$(zkctl completion zsh)"

    Examples:
      zkctl completion zsh > ~/.zfunc/_zkctl    # a folder of $fpath
    """
    _print("zsh")


@command.command("fish")
def fish() -> None:
    """The script for fish.

    For this shell alone: zkctl completion fish | source

    Examples:
      zkctl completion fish > ~/.config/fish/completions/zkctl.fish
    """
    _print("fish")


def _print(shell: str) -> None:
    from zkcontroller_cli.console.completion_shells import SCRIPTS

    click.echo(SCRIPTS[shell], nl=False)
