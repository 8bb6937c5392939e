/**
 * The completion of `plants` for bash 3.2 (macOS) and newer, by `plants complete`; file names where that offers nothing
 * (`-o default`). The script of @bomb.sh/tab for bash needs the package bash-completion, cannot be sourced twice
 * (`readonly`), and evaluates the text of the command line.
 */
export const BASH_COMPLETION = `# bash completion for plants
__plants_complete() {
  local word=\${COMP_WORDS[COMP_CWORD]} candidate rest
  COMPREPLY=()
  # Each line is a candidate, a tab and its description; the last line is a directive such as :4.
  while IFS=$'\\t' read -r candidate rest; do
    if [[ $candidate != :* && $candidate == "$word"* ]]; then COMPREPLY+=("$candidate"); fi
  done < <(plants complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F __plants_complete plants
`;
