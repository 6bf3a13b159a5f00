// Reports about the same files from two sets of rules.

const SEVERITIES = ["error", "warning", "note"];

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
  const inOrder = (a, b) => rank(a) - rank(b) || (a.code < b.code ? -1 : Number(a.code > b.code));
  return {
    ...one,
    errors: one.errors + other.errors,
    warnings: one.warnings + other.warnings,
    notes: one.notes + other.notes,
    findings: findings.sort(inOrder),
    unlisted: [...one.unlisted, ...other.unlisted].sort(inOrder),
  };
}
