// The scripts of the shells: they hand the line to the program and show what it offers. The program
// is the word that was typed, so that ./troupe completes, too.
#include "apps/completion.hpp"

namespace troupe::apps {

namespace {

// Bash parts words at = and : (COMP_WORDBREAKS); the program is given them whole, and what it
// offers loses what stands before the part.
constexpr const char* bash_script = R"(# bash completion of troupe: source <(troupe completion bash)
_troupe() {
  local part="${COMP_WORDS[COMP_CWORD]}" whole=() glue="" prefix word about i
  COMPREPLY=()
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    if [[ -z "$word" && "${COMP_LINE:0:COMP_POINT}" == *" " ]]; then glue=""; fi
    if [[ ${#whole[@]} -gt 0 && ( -n "$glue" || "$word" == [=:] ) ]]; then
      whole[-1]+="$word"
    else
      whole+=("$word")
    fi
    glue=""
    if [[ "$word" == [=:] ]]; then glue=1; fi
  done
  if [[ "$part" == [=:] ]]; then part=""; fi
  prefix="${whole[-1]%"$part"}"
  while IFS=$'\t' read -r word about; do
    case "$word" in
      :files) compopt -o default ;;
      :folders)
        mapfile -t COMPREPLY < <(compgen -d -- "$part")
        compopt -o filenames ;;
      :goes-on) compopt -o nospace ;;
      *) COMPREPLY+=("${word#"$prefix"}") ;;
    esac
  done < <("${COMP_WORDS[0]}" completion bash -- "${whole[@]}" 2>/dev/null)
}
complete -F _troupe troupe
)";

constexpr const char* zsh_script = R"(#compdef troupe
# zsh completion of troupe: source <(troupe completion zsh)
_troupe() {
  local word about paths=""
  local -a offers more
  while IFS=$'\t' read -r word about; do
    case "$word" in
      :files) paths="files" ;;
      :folders) paths="folders" ;;
      :goes-on) more=(-S '') ;;
      *) offers+=("${word//:/\\:}${about:+:$about}") ;;
    esac
  done < <("${words[1]}" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#offers} )); then _describe troupe offers "${more[@]}"; fi
  if [[ -n "$paths" ]]; then
    compset -P '*='
    if [[ "$paths" == folders ]]; then _files -/; else _files; fi
  fi
}
if [[ "${funcstack[1]}" == _troupe ]]; then
  _troupe "$@"
elif (( $+functions[compdef] )); then
  compdef _troupe troupe
fi
)";

constexpr const char* fish_script = R"(# fish completion of troupe: troupe completion fish | source
function __troupe_offers
    set -l line (commandline -opc)
    set -l last (commandline -ct)
    set -l program $line[1]
    set -e line[1]
    for offer in ($program completion fish -- $line "$last" 2>/dev/null)
        switch $offer
            case :files
                __fish_complete_path "$last"
            case :folders
                __fish_complete_directories "$last" ''
            case ':*'
            case '*'
                echo $offer
        end
    end
end
complete -c troupe -f -a '(__troupe_offers)'
)";

}  // namespace

const std::vector<std::string>& completing_shells() {
  static const std::vector<std::string> all{"bash", "zsh", "fish"};
  return all;
}

std::string completion_script(const std::string& shell) {
  return shell == "bash" ? bash_script : shell == "zsh" ? zsh_script : fish_script;
}

}  // namespace troupe::apps
