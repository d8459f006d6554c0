import { nereidColumns } from './nereid-columns.mjs';
import { GRPC_ECHO } from './rivals/grpc-echo.mjs';
import { RIVALS } from './rivals/rivals.mjs';
import { TRITON } from './triton-column.mjs';

/**
 * What is compared, besides raw session.run. `serves({ model, encoding, jobs })`; `missing()`: why it cannot run here;
 * `start({ port, models, place, flags, profiles })`: `{ port, grpcPort, pids, redis, stop }` once it answers, where `place` is a
 * folder of its own; `request({ model, encoding, seed, outputs, jobs })`: what to send and how to check an answer.
 *
 * @typedef {import('./rivals/rivals.mjs').Rival} Column
 */

/** Each request to it is a job of a queue, so it is what jobs are compared with. */
const JOBS_RIVAL = 'fastify-bullmq';
/** A form of Nereid that is run where it is asked for only. */
const ON_REQUEST = ['doors'];

const rivals = RIVALS.map((rival) => ({
  ...rival,
  serves: ({ jobs, ...row }) =>
    row.encoding !== 'grpc' && (jobs !== true || rival.name === JOBS_RIVAL) && rival.serves(row),
}));

/** @type {readonly Column[]} */
export const COLUMNS = [...nereidColumns(), TRITON, ...rivals, GRPC_ECHO];

export const RAW_TITLE = '`session.run`';

export const isDefault = ({ name }) => !ON_REQUEST.includes(name);

/** The title of a column of a report, which may be one of raw session.run or of another build. */
export function columnTitle(name) {
  const raw = /^raw (\d+)$/.exec(name);
  if (raw !== null) return raw[1] === '1' ? RAW_TITLE : `${RAW_TITLE}, batch ${raw[1]}`;
  const [column, build] = name.split(':').toReversed();
  const title = COLUMNS.find((each) => each.name === column)?.title ?? column;
  return build === undefined ? title : `${build}: ${title}`;
}
