#!/usr/bin/env bash
# Vets $FILES, writes annotations and the outputs `safe` and `verdict`, and fails unless all files are safe.
set -uo pipefail
verdict="${RUNNER_TEMP:-.}/ggmill-verdict.json"
# Words, not a pattern: the names come from the workflow.
set -f
# shellcheck disable=SC2086
ggmill check --profile threat --format verdict -- ${FILES:-.} > "$verdict"
code=$?
# Annotations stop the commands of the runner in text from files.
# shellcheck disable=SC2086
[ "$code" -eq 1 ] && ggmill check --profile threat --format github -- ${FILES:-.}
safe=false
[ "$code" -eq 0 ] && safe=true
{
  echo "safe=$safe"
  echo "verdict=$verdict"
} >> "${GITHUB_OUTPUT:-/dev/stdout}"
exit "$code"
