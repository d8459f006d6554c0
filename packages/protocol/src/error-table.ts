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
