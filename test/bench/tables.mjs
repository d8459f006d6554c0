/** The tables of docs/performance.md, written between two markers; the text around them is by hand. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { columnTitle } from './columns.mjs';
import { cellName } from './statistics.mjs';

const PAGE = fileURLToPath(new URL('../../docs/performance.md', import.meta.url));
const BEGIN = '<!-- bench: written by pnpm bench --write, do not edit -->';
const END = '<!-- bench: end -->';
const UNSTABLE = '†';
/** What Nereid's columns are compared with. */
const OURS = ['one', 'apart'];

/** Text with what stands between the markers replaced. Throws where they are not there once each, in order. */
export function replaceBetween(text, inner) {
  const [before, ...rest] = text.split(BEGIN);
  const [old, after, ...more] = rest.join(BEGIN).split(END);
  if (rest.length !== 1 || old === undefined || after === undefined || more.length > 0) {
    throw new Error(`the page needs ${BEGIN} and ${END}, once each`);
  }
  return `${before}${BEGIN}\n\n${inner.trim()}\n\n${END}${after}`;
}

/** Writes the page. `compared` as compareReports gives it, where there is a second run. */
export function writeTables(report, compared) {
  writeFileSync(PAGE, replaceBetween(readFileSync(PAGE, 'utf8'), tablesOf(report, compared)));
}

/** Markdown of a report. */
export function tablesOf(report, compared) {
  const { machine, versions, times, cells } = report;
  const names = [...new Set(cells.flatMap(({ columns }) => Object.keys(columns)))].filter((name) => !isRaw(name));
  const parts = [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB, Linux ${machine.kernel}; ` +
      `Node ${versions.node}, onnxruntime-node ${versions['onnxruntime-node']}, Redis ${versions.redis ?? 'none'}, Fastify ` +
      `${versions.fastify}, BullMQ ${versions.bullmq}; commit ${versions.commit}, ${report.started.slice(0, 10)}. ` +
      `${times.turns} alternating turns of ${times.seconds} s each, load by the generator in ${report.generator}; ` +
      `medians and ranges. ${othersText(cells)}`,
    `Triton runs **with its Python backend**; its C++ backends are faster and not in the package that can be installed here.`,
    '### Requests per second',
    figureTable(cells, names, (of) => of.rps, 0),
    '### p50, milliseconds',
    figureTable(cells, names, (of) => of.p50_ms, 2),
    '### Raw `session.run`',
    rawTable(cells),
    '### Ratios',
    `Of the medians, requests per second: more than 1 means that Nereid answers more.${stabilityText(compared)}`,
    ratioTable(cells, names, compared, 'rps'),
    'Of the medians, p50 with one client: less than 1 means that Nereid is sooner.',
    ratioTable(
      cells.filter(({ concurrency }) => concurrency === 1),
      names,
      compared,
      'p50_ms',
    ),
    '### CPU and Redis commands per request',
    'CPU microseconds of all processes of a server; commands as clients call them.',
    costTable(cells, names),
    ...notRunText(report.notRun),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

const isRaw = (name) => name.startsWith('raw ');

const table = (head, rows) =>
  rows.length === 0 ? '' : [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

const cellHead = ({ title, encoding, concurrency, jobs }) => [title, jobs ? '' : encoding, `${concurrency}`];

/** Thousands get a comma, small numbers digits. */
function number(value, digits) {
  const fixed = value.toFixed(value >= 100 ? 0 : digits);
  return Number(fixed) >= 1000 ? Number(fixed).toLocaleString('en-US') : fixed;
}

function figureTable(cells, names, read, digits) {
  const rows = cells.map((cell) => [
    ...cellHead(cell),
    ...names.map((name) => {
      const found = cell.columns[name];
      if (found === undefined) return '';
      const { median, min, max } = read(found.summary);
      return `${number(median, digits)} (${number(min, digits)}–${number(max, digits)})`;
    }),
  ]);
  return table(['', '', 'clients', ...names.map(columnTitle)], rows);
}

function rawTable(cells) {
  const rows = cells.flatMap((cell) =>
    Object.keys(cell.columns)
      .filter(isRaw)
      .map((name) => {
        const { p50_ms: p50, rps } = cell.columns[name].summary;
        return [cell.title, `${cell.concurrency}`, name.slice(4), number(p50.median, 3), number(rps.median, 0)];
      }),
  );
  return table(['', 'beside clients', 'batch', 'p50 ms of a run', 'rows/s'], rows);
}

function ratioTable(cells, names, compared, figure) {
  const ours = OURS.filter((name) => names.includes(name));
  const others = names.filter((name) => !OURS.includes(name));
  const pairs = ours.flatMap((of) => others.map((to) => ({ of, to })));
  const rows = cells.map((cell) => [
    ...cellHead(cell),
    ...pairs.map(({ of, to }) => {
      const [first, second] = [cell.columns[of], cell.columns[to]];
      if (first === undefined || second === undefined) return '';
      const value = first.summary[figure].median / second.summary[figure].median;
      return `${value.toFixed(2)}${isUnstable(compared, { cell: cellName(cell), figure, of, to }) ? UNSTABLE : ''}`;
    }),
  ]);
  return table(['', '', 'clients', ...pairs.map(({ of, to }) => `${columnTitle(of)} / ${columnTitle(to)}`)], rows);
}

function isUnstable(compared, { cell, figure, of, to }) {
  const pair = compared?.find(
    (each) => each.cell === cell && each.figure === figure && each.of === of && each.to === to,
  );
  return pair !== undefined && !pair.stable;
}

function costTable(cells, names) {
  const rows = cells.map((cell) => [
    ...cellHead(cell),
    ...names.map((name) => {
      const found = cell.columns[name]?.summary;
      if (found === undefined) return '';
      const commands = found.commands === undefined ? '' : `, ${found.commands.called.toFixed(1)} commands`;
      return `${number(found.cpu_us.total, 0)}${commands}`;
    }),
  ]);
  return table(['', '', 'clients', ...names.map(columnTitle)], rows);
}

function othersText(cells) {
  const turns = cells.flatMap(({ columns }) => Object.values(columns).flatMap(({ turns: taken }) => taken));
  const others = turns.map(({ other_cpu: cores }) => cores).toSorted((a, b) => a - b);
  const disturbed = turns.filter(({ disturbed: is }) => is).length;
  const middle = others[Math.floor(others.length / 2)] ?? 0;
  return `Others used ${middle.toFixed(2)} cores in the median turn; ${disturbed} of ${turns.length} turns were disturbed (more than 0.3 cores) also when repeated.`;
}

function stabilityText(compared) {
  if (compared === undefined) return '';
  const stable = compared.filter((each) => each.stable).length;
  const share = compared.length === 0 ? 0 : (100 * stable) / compared.length;
  return ` In a second run ${share.toFixed(0)} % of all ${compared.length} ratios were within 20 %; ${UNSTABLE} marks the others.`;
}

function notRunText(notRun) {
  const lines = Object.entries(notRun).map(([name, why]) => `${columnTitle(name)}: not run (${why}).`);
  return lines.length === 0 ? [] : [lines.join('\n')];
}
