# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion in bash for shunt and shuntd. Subcommands and options are those that their --help
# tells of, so there is no list of them here; what stands for a value there (PID, FILE, tcp|ring)
# says what may be completed.

# Programs under Shunt, by their ids.
_shunt_pids()
{
	"$1" ss --json 2>/dev/null </dev/null | grep -o '"pid": *[0-9]*' | grep -o '[0-9]*$' | sort -nu
}

_shunt_units()
{
	systemctl list-unit-files --no-legend --no-pager --type=service 2>/dev/null </dev/null |
		while read -r unit _; do echo "$unit"; done
}

# Fill COMPREPLY with the values that a placeholder of the help stands for.
_shunt_complete_value()
{
	local placeholder=$1 shunt=$2 word=$3

	case $placeholder in
	*'|'*)
		mapfile -t COMPREPLY < <(compgen -W "${placeholder//|/ }" -- "$word") ;;
	PID | 'PID[:FD]')
		mapfile -t COMPREPLY < <(compgen -W "$(_shunt_pids "$shunt")" -- "$word") ;;
	DEVICE)
		mapfile -t COMPREPLY < <(cd /sys/class/infiniband 2>/dev/null && compgen -G "$word*") ;;
	UNIT)
		mapfile -t COMPREPLY < <(compgen -W "$(_shunt_units)" -- "$word") ;;
	USER)
		mapfile -t COMPREPLY < <(compgen -u -- "$word") ;;
	LANE)
		mapfile -t COMPREPLY < <(compgen -W "tcp ring rdma" -- "$word") ;;
	PROGRAM | COMMAND)
		mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
	DIR | DIRECTORY)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
	FILE)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	esac
}

# What stands behind the option $2 in the help $1: a word in capitals, or words with | between them.
_shunt_placeholder()
{
	local capitals='[A-Z][A-Z:]*' choice='[a-z]\{1,\}|[a-z|]*'

	sed -n -e "s/.*$2 \($choice\).*/\1/p" -e "s/.*$2 \($capitals\).*/\1/p" <<<"$1" | head -n 1
}

# What the usage in the help $1 takes besides options.
_shunt_argument()
{
	sed -n -e '1s/\[[^]]*--[^]]*\]//g' -e '1s/ *--[a-z-]* [^ ]*//g' -e '1s/^Usage: shunt [a-z]* *//p' \
		<<<"$1" | grep -o 'PID\[:FD\]\|[A-Z]\{1,\}' | head -n 1
}

_shunt()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} shunt=${COMP_WORDS[0]}
	local help at

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		help=$("$shunt" --help 2>/dev/null </dev/null)
		mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p' <<<"$help")
			--help --version help" -- "$word")
		return
	fi
	if [ "${COMP_WORDS[1]}" = help ]; then
		help=$("$shunt" --help 2>/dev/null </dev/null)
		mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p' <<<"$help")" \
			-- "$word")
		return
	fi
	help=$("$shunt" "${COMP_WORDS[1]}" --help 2>/dev/null </dev/null)
	if [ "${COMP_WORDS[1]}" = run ]; then
		# Behind the command it is the command's own line.
		for ((at = 2; at < COMP_CWORD; at++)); do
			case ${COMP_WORDS[at]} in
			--daemon) ((at++)) ;;
			-*) ;;
			*)
				if declare -F _command_offset >/dev/null; then
					_command_offset "$at"
				else
					_shunt_complete_value FILE "$shunt" "$word"
				fi
				return ;;
			esac
		done
	fi
	_shunt_options
}

# For a line of which $help is the help.
_shunt_options()
{
	local placeholder=

	case $before in
	--*) placeholder=$(_shunt_placeholder "$help" "$before") ;;
	esac
	if [ -n "$placeholder" ]; then
		_shunt_complete_value "$placeholder" "$shunt" "$word"
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(grep -o -e '--[a-z][a-z-]*' <<<"$help") --help" \
			-- "$word" | sort -u)
	else
		_shunt_complete_value "$(_shunt_argument "$help")" "$shunt" "$word"
	fi
}

_shuntd()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} shunt=shunt help

	COMPREPLY=()
	help=$("${COMP_WORDS[0]}" --help 2>/dev/null </dev/null)
	_shunt_options
}

complete -F _shunt shunt
complete -F _shuntd shuntd
