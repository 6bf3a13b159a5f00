// Reports about the same files from two sets of rules.

const SEVERITIES = ["error", "warning", "note"];

/** Returns a comparison by severity and then by the code of the rule. */
const comparison = (rank, code) => (a, b) => rank(a) - rank(b) || (code(a) < code(b) ? -1 : Number(code(a) > code(b)));

/** Compares reasons of a verdict. */
export const compareReasons = comparison(({ severity }) => SEVERITIES.indexOf(severity), ({ rule }) => rule);

/** Joins two reports of different rules, with everything in the order of one report. */
export function joinReports(one, other) {
  const files = one.files.map((file, at) => joinFiles(file, other.files[at]));
  return { ...one, files };
}

function joinFiles(one, other) {
  const findings = [...one.findings, ...other.findings];
  const severities = new Map(findings.map(({ code, severity }) => [code, SEVERITIES.indexOf(severity)]));
  // A rule without findings has no severity, so these rules are sorted by code.
  const rank = ({ code }) => severities.get(code) ?? SEVERITIES.length;
  const inOrder = comparison(rank, ({ code }) => code);
  return {
    ...one,
    errors: one.errors + other.errors,
    warnings: one.warnings + other.warnings,
    notes: one.notes + other.notes,
    findings: findings.sort(inOrder),
    unlisted: [...one.unlisted, ...other.unlisted].sort(inOrder),
  };
}
