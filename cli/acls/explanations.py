"""Explains in rows why a principal may do something or not: the ACL, the reason, the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_common.acls import AclOperation, ResourcePattern
from replica_manager.security.acl_cache import WILDCARD
from replica_manager.security.principals import Principal
from zkcontroller_cli.acls.decisions import AclDecision, AskedRight, Because, RuleBook
from zkcontroller_cli.acls.needs import Need, Right
from zkcontroller_cli.acls.reading import ALLOW_EVERYONE, SUPER_USERS
from zkcontroller_cli.values.acls import change_command, resource_text, rule_text, word


def explain_right(
    book: RuleBook,
    principal: Principal,
    host: str | None,
    operation: AclOperation,
    resource: ResourcePattern,
) -> dict[str, Any]:
    """Whether an operation is allowed, and why.

    ``host`` None: the decision for ``*``, and a list of the hosts with another decision.
    """
    right = AskedRight(principal, host or WILDCARD, operation, *resource[:2])
    decision = book.decide(right)
    others: list[dict[str, Any]] = []
    if host is None:
        entries = [binding.entry for binding in book.rules_of(*resource[:2])]
        for named in book.hosts_of(principal, entries)[1:]:
            there = book.decide(right._replace(host=named))
            if there.is_allowed is not decision.is_allowed:
                others.append({"host": named, **_cells(there)})
    return {
        "principal": str(principal),
        "host": right.host,
        "operation": word(operation),
        "resource_type": word(resource.resource_type),
        "resource": resource.name,
        **_cells(decision),
        "is_super_user": _is_super_user(book, principal),
        "reason": _sentence(book, right, decision),
        "commands": _commands(book, right, decision),
        "other_hosts": others,
    }


def _cells(decision: AclDecision) -> dict[str, Any]:
    return {
        "is_allowed": decision.is_allowed,
        "because": decision.because.value,
        "rule": None if decision.rule is None else rule_text(decision.rule),
    }


def _is_super_user(book: RuleBook, principal: Principal) -> bool | None:
    if book.settings.super_users is None:
        return None
    return principal in book.super_users


def _sentence(book: RuleBook, right: AskedRight, decision: AclDecision) -> str:
    what = f"{word(right.operation)} on {resource_text(ResourcePattern(*right[3:]))}"
    match decision.because:
        case Because.SUPER_USER:
            return f"{right.principal} is a super user"
        case Because.ALLOW:
            assert decision.rule is not None, "an ACL allows it"
            implied = decision.rule.entry.operation not in (right.operation, AclOperation.ALL)
            return f"an ACL allows {'what implies ' if implied else ''}{what}"
        case Because.DENY:
            said = "an ACL denies it, and that wins over every ACL that allows it"
        case Because.NO_RULE_APPLIES:
            said = f"there are ACLs, and none of them allows {what}"
        case _:
            value = book.settings.allow_everyone
            text = "not known" if value is None else str(value).lower()
            said = f"there is no ACL at all, and {ALLOW_EVERYONE} is {text}"
    if not decision.is_allowed and book.settings.super_users is None:
        said += f"; as a super user it may all the same, and {SUPER_USERS} is not known"
    return said


def _commands(book: RuleBook, right: AskedRight, decision: AclDecision) -> list[str]:
    """The command lines that would allow the right; empty if it is allowed."""
    if decision.is_allowed:
        return []
    return [
        change_command("add" if change.is_added else "remove", change.binding)
        for change in book.changes_to_allow(right)
    ]


def explain_api(
    book: RuleBook, api: str, needs: Sequence[Need], principal: Principal, host: str | None
) -> list[dict[str, Any]]:
    """A row for each need of a request; if several rights fulfil it, the best of them is shown."""
    return [_need_row(book, api, need, principal, host or WILDCARD) for need in needs]


def named_hosts(book: RuleBook, needs: Sequence[Need], principal: Principal) -> list[str]:
    """The hosts in the ACLs of these resources, for which the decision may be another one."""
    found: set[str] = set()
    for need in needs:
        for right in need.choices:
            entries = [binding.entry for binding in book.rules_of(*right.resource[:2])]
            found.update(book.hosts_of(principal, entries)[1:])
    return sorted(found)


def _need_row(
    book: RuleBook, api: str, need: Need, principal: Principal, host: str
) -> dict[str, Any]:
    decided = [(right, _decision(book, right, principal, host)) for right in need.choices]
    # Show the right that is allowed, else the most specific one, which is the last with a name.
    allowed = [each for each in decided if each[1].is_allowed]
    of_a_name = [each for each in decided if each[0].resource.name]
    right, decision = (allowed or of_a_name[::-1])[0]
    asked = AskedRight(principal, host, right.operation, *right.resource[:2])
    return {
        "api": api,
        "when": need.when,
        "operation": word(right.operation),
        "resource_type": word(right.resource.resource_type),
        "resource": right.resource.name or WILDCARD,
        **_cells(decision),
        "alternatives": [_right_text(each) for each, _ in decided if each != right],
        "commands": _commands(book, asked, decision),
    }


def _decision(book: RuleBook, right: Right, principal: Principal, host: str) -> AclDecision:
    operation, resource = right
    if not resource.name:
        return book.decide_on_any(principal, host, operation, resource.resource_type)
    return book.decide(AskedRight(principal, host, operation, *resource[:2]))


def _right_text(right: Right) -> str:
    if not right.resource.name:
        return f"{word(right.operation)} on any {word(right.resource.resource_type)}"
    return f"{word(right.operation)} on {resource_text(right.resource)}"
