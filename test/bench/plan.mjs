/** What is measured, and about how long that takes. Nothing here measures. */
import { ROWS } from './rows.mjs';

const FULL = { turns: 5, seconds: 2, warmUp: 0.2, firstWarmUp: 2, nextWarmUp: 0.5 };
const QUICK = { turns: 5, seconds: 0.3, warmUp: 0.05, firstWarmUp: 0.6, nextWarmUp: 0.2 };
/** Around each turn: the generator's start, its last requests, the checks. */
const AROUND_S = 0.22;
const START_S = 3;

/**
 * @param {{ quick: boolean, only: readonly string[], concurrencies: readonly number[], turns?: number, seconds?: number,
 *   columns: readonly { name: string }[], isDefault: (column: object) => boolean }} wishes `only` names rows and columns;
 *   of a kind that it does not name, all are meant
 * @returns {{ times: typeof FULL, raw: boolean, columns: object[], cells: object[] }}
 */
export function plan({ quick, only, concurrencies, turns, seconds, columns, isDefault }) {
  const rowNames = only.filter((name) => ROWS[name] !== undefined);
  const columnNames = only.filter((name) => ROWS[name] === undefined);
  const base = (name) => name.split(':').at(-1);
  const unknown = columnNames.find((name) => name !== 'raw' && !columns.some((column) => base(column.name) === name));
  if (unknown !== undefined) {
    const known = [...Object.keys(ROWS), 'raw', ...columns.map(({ name }) => name)];
    throw new Error(`--only: ${unknown} is none of ${known.join(', ')}`);
  }
  const isWanted = (column) => (columnNames.length === 0 ? isDefault(column) : columnNames.includes(base(column.name)));
  const chosen = Object.entries(ROWS).filter(([name]) => rowNames.length === 0 || rowNames.includes(name));
  const cells = chosen.flatMap(([name, { cells: ofRow, ...row }]) =>
    ofRow
      .filter((cell) => !quick || cell.quick)
      .filter((cell) => concurrencies.length === 0 || concurrencies.includes(cell.concurrency))
      .map((cell) => ({ row: { name, ...row }, ...cell })),
  );
  const times = quick ? QUICK : FULL;
  return {
    times: { ...times, turns: turns ?? times.turns, seconds: seconds ?? times.seconds },
    raw: columnNames.length === 0 || columnNames.includes('raw'),
    columns: columns.filter(isWanted),
    cells,
  };
}

/** Whether a column has a cell. */
export function takesPart(column, { row, encoding }) {
  return column.serves({ model: row.model, encoding, jobs: row.jobs === true });
}

/** Seconds that it takes with these columns running, without turns that have to be repeated. */
export function estimateSeconds({ times, raw, columns, cells }) {
  let total = columns.length * START_S;
  let before;
  for (const cell of cells) {
    const servers = columns.filter((column) => takesPart(column, cell)).length;
    const runs = servers + (raw ? (cell.raw ?? []).length : 0);
    const warmUp = cell.row.name === before ? times.nextWarmUp : times.firstWarmUp;
    before = cell.row.name;
    total += runs * times.turns * (times.warmUp + times.seconds + AROUND_S) + servers * (warmUp + AROUND_S);
  }
  return total;
}
