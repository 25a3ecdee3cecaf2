#!/usr/bin/env bash
# The format gate: every C++ source as clang-format 14 would write it.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: check_format.sh [--fix]
  --fix  rewrite the files instead of reporting them
TEXT
}

arguments=(--dry-run -Werror)
case ${1:-} in
  '') ;;
  --fix) arguments=(-i) ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    usage >&2
    die 2 "unknown option '$1'"
    ;;
esac
command -v clang-format-14 >/dev/null ||
  die 3 "clang-format-14 is not here; scripts/install_dependencies.sh installs it"

cd "$project_dir"
cpp_sources '*.cpp' '*.hpp' '*.cu' '*.cuh' |
  xargs -0 -r -n 32 -P "$(nproc)" clang-format-14 --style=file "${arguments[@]}"
