# bash completion of a2asim, written by `a2asim completion bash`.
_a2asim() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' word takes='' values=''
  COMPREPLY=()
  if [[ $cur == '=' ]]; then  # "--format=" comes as two words, "--format=json" as three
    cur=''
  elif [[ $prev == '=' ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
    --) return ;;  # the words of a launch command
    {{{commands}}}) command=${command:-$word} ;;
    esac
  done
  case $command:$prev in
{{{values}}}  esac
  [[ -n $takes ]] || case $command in
{{{words}}}  esac
  COMPREPLY=($(compgen -W "$values" -- "$cur"))
  if [[ $takes == file ]]; then
    local IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _a2asim a2asim
