/** Medians, ranges and ratios of the turns of one row at one concurrency. */

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

const total = (byName) => Object.values(byName).reduce((sum, value) => sum + value, 0);

function spread(values) {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** Of one column's turns. */
export function summary(runs) {
  const of = (read) => spread(runs.map(read));
  const names = (read) => Object.keys(read(runs[0]));
  const each = (read) =>
    Object.fromEntries(names(read).map((name) => [name, of((run) => read(run)[name] ?? 0).median]));
  const { commands } = runs[0];
  return {
    p50_ms: of((run) => run.p50_ms),
    p99_ms: of((run) => run.p99_ms),
    rps: of((run) => run.rps),
    errors: runs.reduce((sum, run) => sum + run.errors, 0),
    cpu_us: { total: of((run) => total(run.cpu_us)).median, ...each((run) => run.cpu_us) },
    ...(commands === undefined
      ? {}
      : {
          commands: {
            all: of((run) => run.commands.all).median,
            called: of((run) => run.commands.called).median,
            by_name: each((run) => run.commands.by_name),
          },
        }),
  };
}

/** Per column, p50 and throughput as a multiple of the base column's: of the medians, and turn by turn. */
export function ratios(runsByColumn, base) {
  const baseRuns = runsByColumn[base];
  if (baseRuns === undefined) return {};
  const others = Object.entries(runsByColumn).filter(([name]) => name !== base);
  return Object.fromEntries(
    others.map(([name, runs]) => {
      const ratio = (read) => ({
        of_medians: median(runs.map(read)) / median(baseRuns.map(read)),
        by_turn: spread(runs.map((run, turn) => read(run) / read(baseRuns[turn]))),
      });
      return [name, { base, p50: ratio((run) => run.p50_ms), rps: ratio((run) => run.rps) }];
    }),
  );
}

export function printSummary(label, { p50_ms, rps, cpu_us, commands, errors }) {
  const parts = Object.entries(cpu_us).map(([role, us]) => `${role} ${us.toFixed(1)}`);
  console.log(`${label}: p50 ms ${shown(p50_ms, 3)}, req/s ${shown(rps, 0)}, errors ${errors}`);
  console.log(`    CPU us/request: ${parts.join(', ')}`);
  if (commands === undefined) return;
  const names = Object.entries(commands.by_name).map(([name, calls]) => `${name} ${calls.toFixed(2)}`);
  console.log(
    `    Redis commands/request: ${commands.called.toFixed(2)} by clients, ${commands.all.toFixed(2)} with those in scripts (${names.join(', ')})`,
  );
}

export function printRatios(label, of) {
  for (const [name, { base, p50, rps }] of Object.entries(of)) {
    console.log(
      `${label} ${name} / ${base}: p50 ${p50.of_medians.toFixed(2)} (by turn ${shown(p50.by_turn, 2)}), ` +
        `req/s ${rps.of_medians.toFixed(2)} (by turn ${shown(rps.by_turn, 2)})`,
    );
  }
}

const shown = ({ median: middle, min, max }, digits) =>
  `${middle.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
