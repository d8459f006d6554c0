/** Medians, ranges and ratios of turns. Nothing here measures. */

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export function spread(values) {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** In which order so many go, by number, in a turn: turned round each time, and every second time another one is first. */
export function turnOrder(count, turn) {
  const numbers = Array.from({ length: count }, (_, index) => index);
  const order = turn % 2 === 0 ? numbers : numbers.reverse();
  const first = Math.floor(turn / 2) % count;
  return [...order.slice(first), ...order.slice(0, first)];
}

/**
 * Where the median of what the values are drawn from is, with 95 % certainty: by the sign test, whatever their
 * distribution. Undefined for fewer than six values, whose whole range is less sure.
 */
export function medianRange(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const count = sorted.length;
  let left = 0;
  let tail = 0.5 ** count;
  let step = tail;
  while (2 * tail <= UNSURE_MAX) {
    left += 1;
    step *= (count - left + 1) / left;
    tail += step;
  }
  return left === 0 ? undefined : { min: sorted[left - 1], max: sorted[count - left] };
}

const UNSURE_MAX = 0.05;

export const total = (byName) => Object.values(byName).reduce((sum, value) => sum + value, 0);

/** The medians of records of numbers, name by name; a name that one of them lacks counts as 0 there. */
function medians(records) {
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
  return Object.fromEntries(names.map((name) => [name, median(records.map((record) => record[name] ?? 0))]));
}

/** Of one column's turns in one cell, as turns.mjs gives them. */
export function summary(turns) {
  const of = (read) => spread(turns.map(read));
  const commands = turns.map((turn) => turn.commands).filter((each) => each !== undefined);
  return {
    p50_ms: of((turn) => turn.p50_ms),
    p99_ms: of((turn) => turn.p99_ms),
    rps: of((turn) => turn.rps),
    others_cpu: of((turn) => turn.other_cpu),
    errors: turns.reduce((sum, turn) => sum + turn.errors, 0),
    checked: turns.reduce((sum, turn) => sum + turn.checked, 0),
    disturbed: turns.filter((turn) => turn.disturbed).length,
    repeated: turns.reduce((sum, turn) => sum + turn.repeated, 0),
    cpu_us: { total: median(turns.map((turn) => total(turn.cpu_us))), ...medians(turns.map((turn) => turn.cpu_us)) },
    ...(commands.length === 0
      ? {}
      : {
          commands: {
            all: median(commands.map(({ all }) => all)),
            called: median(commands.map(({ called }) => called)),
            by_name: medians(commands.map(({ by_name }) => by_name)),
          },
        }),
  };
}

/** Two runs' figures agree where the larger is at most this much above the smaller. */
export const STABLE_RATIO_MAX = 1.2;
const FIGURES = ['p50_ms', 'rps'];

/** How a cell is named in every output. */
export const cellName = ({ row, encoding, concurrency }) => `${row} ${encoding} c=${concurrency}`;

/**
 * The ratios of Nereid's columns to all others, in every cell that both reports have.
 *
 * @returns {{ cell: string, figure: string, of: string, to: string, first: number, second: number, stable: boolean }[]}
 */
export function compareReports(first, second) {
  const others = new Map(second.cells.map((cell) => [cellName(cell), cell]));
  return first.cells.flatMap((cell) => {
    const other = others.get(cellName(cell));
    if (other === undefined) return [];
    return ratiosOf(cell).flatMap(({ figure, of, to, value }) => {
      const again = ratiosOf(other).find((each) => each.figure === figure && each.of === of && each.to === to);
      if (again === undefined) return [];
      const stable = Math.max(value / again.value, again.value / value) <= STABLE_RATIO_MAX;
      return [{ cell: cellName(cell), figure, of, to, first: value, second: again.value, stable }];
    });
  });
}

/** Each pair of columns once: an earlier one to a later one. */
function ratiosOf({ columns }) {
  const names = Object.keys(columns);
  return FIGURES.flatMap((figure) =>
    names.flatMap((of, index) =>
      names.slice(index + 1).map((to) => ({
        figure,
        of,
        to,
        value: columns[of].summary[figure].median / columns[to].summary[figure].median,
      })),
    ),
  );
}
