import { ERROR_TABLE } from './error.ts';

/** gRPC's names for the status numbers in the table. */
const GRPC_NAMES: Readonly<Record<number, string>> = {
  1: 'CANCELLED',
  2: 'UNKNOWN',
  3: 'INVALID_ARGUMENT',
  5: 'NOT_FOUND',
  6: 'ALREADY_EXISTS',
  12: 'UNIMPLEMENTED',
  13: 'INTERNAL',
  14: 'UNAVAILABLE',
};

/** The `reason` of errors that have one: what a client may do differently for. */
const REASONS: Readonly<Record<string, string>> = {
  sequence_lost:
    'there was a sequence, and it is over in the middle of it: begin anew under another id; also a numbered step after the first of which nobody knows a sequence: one that never began cannot be told from one that is lost',
  step_gap:
    'steps before this one are missing; the text names the number that is due, and so does `due=` in the header',
  answer_expired: 'this step was done long ago, and its answer is not kept',
  expired: "a job's result is not kept any more",
  stream_broken: 'a part of the stream was lost: send the request again to begin anew',
  tensor_lost:
    'a tensor between two steps of an ensemble was lost with the worker that kept it: send the request again',
  stream_unread: 'the answers came faster than they were read',
  execution_timeout: 'the model took longer than `nereid.execution_timeout_ms`',
};

/** The table of docs/errors.md: one row a code, ending with a line feed. */
export function errorTableMarkdown(): string {
  const lines = [
    "| code | meaning | HTTP, Triton's routes | HTTP, Nereid's routes | gRPC | metric reason |",
    '|---|---|---|---|---|---|',
  ];
  for (const [code, row] of Object.entries(ERROR_TABLE)) {
    const grpc = `${GRPC_NAMES[row.grpc] ?? ''} (${row.grpc})`;
    lines.push(`| ${code} | ${row.meaning} | ${row.http} | ${row.httpOwn ?? row.http} | ${grpc} | ${row.reason} |`);
  }
  return `${lines.join('\n')}\n`;
}

/** As `errorTableMarkdown`, one row a reason. */
export function errorReasonsMarkdown(): string {
  const rows = Object.entries(REASONS).map(([reason, meaning]) => `| \`${reason}\` | ${meaning} |`);
  return `${['| reason | meaning |', '|---|---|', ...rows].join('\n')}\n`;
}
