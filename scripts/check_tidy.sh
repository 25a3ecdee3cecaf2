#!/usr/bin/env bash
# The clang-tidy gate: every compiled source passes the checks of .clang-tidy (clang-tidy 14).
#
# A file that passed is remembered by the hash of what decides the outcome (its text, the project
# headers it includes, its compile command, .clang-tidy), so another run looks at changed files only.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: check_tidy.sh [--build DIR] [--budget SECONDS] [--strict] [--timing] [FILE...]
  --build DIR       a built folder with compile_commands.json (default build/release)
  --budget SECONDS  start no further file after this time; what was left out is counted and named
                    (default: CGCONFORM_TIDY_BUDGET, or no limit)
  --strict          with --budget: files left out fail the gate (exit code 4)
  --timing          print the seconds each file takes
FILE: only these sources, by their path from the repository root.
Exit codes: 0 clean, 1 findings, 2 wrong command line, 3 clang-tidy 14 or the build is not there.
TEXT
}

build_dir="$project_dir/build/release"
budget=${CGCONFORM_TIDY_BUDGET:-}
strict=false
timing=false
only=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --build)
      (($# >= 2)) || die 2 "--build needs a folder"
      build_dir=$(cd -- "$2" && pwd) || die 2 "no folder '$2'"
      shift
      ;;
    --budget)
      (($# >= 2)) && [[ $2 =~ ^[0-9]+$ ]] || die 2 "--budget needs a number of seconds"
      budget=$2
      shift
      ;;
    --strict) strict=true ;;
    --timing) timing=true ;;
    -*)
      usage >&2
      die 2 "unknown option '$1'"
      ;;
    *) only+=("$1") ;;
  esac
  shift
done
[[ $budget =~ ^[0-9]*$ ]] || die 2 "CGCONFORM_TIDY_BUDGET needs a number of seconds, not '$budget'"
command -v clang-tidy-14 >/dev/null ||
  die 3 "clang-tidy-14 is not here; scripts/install_dependencies.sh installs it"
[[ -f $build_dir/compile_commands.json ]] ||
  die 3 "$build_dir has no compile_commands.json; build first: cmake --preset release && cmake --build build/release"

cache_dir=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cgconform/clang-tidy
mkdir -p "$cache_dir"
work_dir=$(mktemp -d)
trap 'rm -rf -- "$work_dir"' EXIT

# Prints "SOURCE<TAB>HEADER..." for every object the build knows the includes of, project files only.
source_dependencies() {
  ninja -C "$build_dir" -t deps | awk -v root="$project_dir/" -v build="$build_dir/" '
    # Compiler caches may write paths from the build folder on.
    function absolute(path, base) {
      if (path ~ /^\//) return path
      base = build
      sub(/\/$/, "", base)
      while (index(path, "../") == 1) { path = substr(path, 4); sub(/\/[^\/]*$/, "", base) }
      return base "/" path
    }
    function flush() { if (line != "") print line; line = ""; first = 1 }
    /^[^ ].*: #deps/ { flush(); next }
    /^    / {
      path = absolute(substr($0, 5))
      project = index(path, root) == 1 && index(path, build) != 1
      if (first) { first = 0; if (project && path ~ /\.cpp$/) line = substr(path, length(root) + 1) }
      else if (line != "" && project) line = line "\t" substr(path, length(root) + 1)
    }
    END { flush() }' | sort -u
}

# The hash that decides the outcome for one line of source_dependencies.
outcome_hash() {
  local files configs
  configs=(.clang-tidy)
  IFS=$'\t' read -ra files <<<"$1"
  if [[ -f ${files[0]%%/*}/.clang-tidy ]]; then configs+=("${files[0]%%/*}/.clang-tidy"); fi
  {
    sha256sum "${configs[@]}" "${files[@]}"
    grep -F -- "$project_dir/${files[0]}" "$build_dir/compile_commands.json" |
      grep -F '"command"' | sed "s|$project_dir||g; s|$build_dir||g"
  } | sha256sum | cut -d' ' -f1
}

# Newest change first: with a budget, what was just written is looked at before what was seen before.
newest_first() {
  while IFS=$'\t' read -r hash source; do
    printf '%s\t%s\t%s\n' "$(stat -c %Y -- "$source")" "$hash" "$source"
  done | sort -rn | cut -f2-
}

# check_one HASH SOURCE: run by xargs.
check_one() {
  local hash=$1 source=$2 started=$SECONDS
  if [[ -n $budget ]] && (($(date +%s) >= deadline)); then
    printf '%s\n' "$source" >>"$work_dir/left_out"
    return 0
  fi
  if clang-tidy-14 --quiet --extra-arg=-Wno-unknown-warning-option -p "$build_dir" "$source" >"$work_dir/$hash.log" 2>&1; then
    : >"$cache_dir/$hash"
    printf '%s\n' "$source" >>"$work_dir/clean"
  else
    grep -v ' warnings generated\.$' "$work_dir/$hash.log" || true
    printf '%s\n' "$source" >>"$work_dir/findings"
  fi
  if $timing; then printf '%5d s  %s\n' "$((SECONDS - started))" "$source"; fi
}

count() { if [[ -f $1 ]]; then wc -l <"$1"; else echo 0; fi; }

cd "$project_dir"
deadline=$(($(date +%s) + ${budget:-0}))
known=0
while IFS= read -r line; do
  source=${line%%$'\t'*}
  if ((${#only[@]} > 0)) && [[ " ${only[*]} " != *" $source "* ]]; then continue; fi
  hash=$(outcome_hash "$line")
  if [[ -f $cache_dir/$hash ]]; then
    known=$((known + 1))
  else
    printf '%s\t%s\n' "$hash" "$source" >>"$work_dir/queue"
  fi
done < <(source_dependencies)
touch "$work_dir/queue"
((known + $(count "$work_dir/queue") > 0)) || die 3 "$build_dir holds no compiled source to check"

export -f check_one
export budget deadline work_dir cache_dir build_dir timing
newest_first <"$work_dir/queue" | tr '\t\n' '\0\0' |
  xargs -0 -r -n 2 -P "$(nproc)" bash -c 'check_one "$@"' check_one

findings=$(count "$work_dir/findings")
left_out=$(count "$work_dir/left_out")
say "clang-tidy: $known unchanged, $(count "$work_dir/clean") clean, $findings with findings," \
  "$left_out not checked"
if ((findings > 0)); then
  sed 's/^/  findings in /' "$work_dir/findings"
  exit 1
fi
if ((left_out > 0)); then
  say "  the budget of $budget s was over before these were checked:"
  sed 's/^/    /' "$work_dir/left_out"
  if $strict; then exit 4; fi
fi
