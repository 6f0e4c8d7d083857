#compdef a2asim
# zsh completion of a2asim, written by `a2asim completion zsh`.
_a2asim() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C{{{program}}} \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command)
    local -a commands=({{{commands}}}
    )
    _describe command commands
    ;;
  argument)
    case $words[1] in
{{{arguments}}}    esac
    ;;
  esac
}
if [ "$funcstack[1]" = _a2asim ]; then _a2asim "$@"; else compdef _a2asim a2asim; fi
