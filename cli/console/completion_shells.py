"""The scripts with which shells complete zkctl's command lines, and the output that they read.

The scripts call zkctl with ``_ZKCTL_COMPLETE`` in its environment.  After any error zkctl prints
nothing then, and its exit code is 0, as an error text would disturb the command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)
from typing_extensions import override

if TYPE_CHECKING:
    from zkcontroller_cli.console.shared_settings import Settings

VARIABLE: Final = "_ZKCTL_COMPLETE"
_PROGRAM: Final = "zkctl"

_BASH: Final = r"""_zkctl_completion() {
    local IFS=$'\n' line kind value is_open=yes
    local -a answer
    COMPREPLY=()
    mapfile -t answer < <(
        env _ZKCTL_COMPLETE=bash_complete _ZKCTL_BREAKS="$COMP_WORDBREAKS" \
            _ZKCTL_LINE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null </dev/null
    )
    for line in "${answer[@]}"; do
        kind=${line%%,*}
        value=${line#*,}
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[=:] ]] || is_open=no
                ;;
        esac
    done
    [[ ${#COMPREPLY[@]} -gt 0 && $is_open == yes ]] && compopt -o nospace
    return 0
}

complete -o nosort -F _zkctl_completion zkctl
"""

_ZSH: Final = r"""#compdef zkctl

_zkctl_completion() {
    local -a answer plain described open_values
    local kind value help
    answer=("${(@f)$(env _ZKCTL_COMPLETE=zsh_complete COMP_WORDS="${words[*]}" \
        COMP_CWORD=$((CURRENT-1)) ${words[1]} 2>/dev/null </dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P '*='
    for kind value help in "${answer[@]}"; do
        case $kind in
            plain)
                if [[ $value == *= || $value == *: ]]; then
                    open_values+=("$value")
                elif [[ $help == _ ]]; then
                    plain+=("$value")
                else
                    described+=("${value//:/\\:}:$help")
                fi
                ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done
    (( $#described )) && _describe -V zkctl described
    (( $#plain )) && compadd -V zkctl -a plain
    (( $#open_values )) && compadd -S '' -V zkctl -a open_values
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _zkctl_completion "$@"
else
    compdef _zkctl_completion zkctl
fi
"""

_FISH: Final = r"""function __zkctl_completion
    set -l answer (env _ZKCTL_COMPLETE=fish_complete COMP_WORDS=(commandline -cp | string collect) \
        COMP_CWORD=(commandline -ct | string collect --allow-empty) zkctl 2>/dev/null </dev/null)
    for line in $answer
        set -l parts (string split -m 1 ',' -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command zkctl --arguments '(__zkctl_completion)'
"""

SCRIPTS: Final[Mapping[str, str]] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class _Bash(BashComplete):
    """Completion for bash, which splits words at ``:`` and ``=``; zkctl does not."""

    @override
    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("_ZKCTL_LINE")
        if line is None:  # a script of an older version
            return super().get_completion_args()
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], incomplete

    @override
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        breaks = [each for each in ":=" if each in os.environ.get("_ZKCTL_BREAKS", "")]
        typed = _value_of(incomplete)
        seen = max((typed.rfind(each) + 1 for each in breaks), default=0)
        for item in items:
            if item.type == "plain" and item.value.startswith(typed[:seen]):
                item.value = item.value[seen:]
        return items


class _Zsh(ZshComplete):
    """Completion for zsh; the script escapes colons itself, so nothing is escaped here."""

    @override
    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\n{item.value}\n{(item.help or '_').splitlines()[0]}"


class _Fish(FishComplete):
    """Completion for fish, which takes ``--option=value`` for one word."""

    @override
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        option = incomplete.removesuffix(_value_of(incomplete))
        for item in items:
            if item.type == "plain":
                item.value = option + item.value
        return items


_SHELLS: Final[Mapping[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def answer_shell(root: click.Command, given: Settings) -> str:
    """The output for the shell that set ``_ZKCTL_COMPLETE``; empty after any error."""
    shell, _, wish = os.environ.get(VARIABLE, "").partition("_")
    if shell not in _SHELLS:
        return ""
    if wish == "source":
        return SCRIPTS[shell]
    if wish != "complete":
        return ""
    stderr = sys.stderr
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            # Hides warnings, logs of libraries, and tracebacks of threads.
            sys.stderr = nowhere
            text = _SHELLS[shell](root, {"obj": given}, _PROGRAM, VARIABLE).complete()
    except (Exception, SystemExit):  # noqa: BLE001 a completion never fails
        return ""
    finally:
        sys.stderr = stderr
    return text + "\n" if text else ""


def _value_of(incomplete: str) -> str:
    """The part of a value typed so far, without ``--option=``."""
    if incomplete.startswith("--") and "=" in incomplete:
        return incomplete.partition("=")[2]
    return incomplete
