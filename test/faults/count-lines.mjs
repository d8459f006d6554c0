/** What became of accepted jobs, a line for each kind. */
export function countLines(counts) {
  return Object.entries(counts)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([kind, { failed, lost, ...counted }]) => {
      const codes = Object.entries(failed).map(([code, count]) => `${count} failed as ${code}`);
      const { accepted, completed, ...bad } = counted;
      return [
        `${kind}: ${accepted} accepted, ${completed} completed`,
        ...codes,
        `${lost} lost with their worker`,
        ...Object.entries(bad).map(([what, count]) => `${count} ${what}`),
      ].join(', ');
    });
}

/** The sums of counts of several runs. */
export function sumCounts(all) {
  const sums = {};
  for (const counts of all) {
    for (const [kind, own] of Object.entries(counts))
      sums[kind] = sums[kind] === undefined ? own : sumOf(sums[kind], own);
  }
  return sums;
}

function sumOf({ failed: failedA, ...a }, { failed: failedB, ...b }) {
  const add = (one, other) =>
    Object.fromEntries(
      [...new Set([...Object.keys(one), ...Object.keys(other)])].map((key) => [
        key,
        (one[key] ?? 0) + (other[key] ?? 0),
      ]),
    );
  return { ...add(a, b), failed: add(failedA, failedB) };
}
