import { expect, test } from 'vitest';
import { traceContext, traceId } from './trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const GOOD = `00-${TRACE}-${PARENT}-01`;

test.each([
  ['of version 00', GOOD],
  ['with blanks around it', ` ${GOOD}\t`],
  ['of a later version', `01-${TRACE}-${PARENT}-01`],
  ['of a later version with more behind it', `cc-${TRACE}-${PARENT}-01-what-is-new`],
])('a traceparent %s is taken', (_, given) => {
  expect(traceContext(given)).toBe(GOOD);
  expect(traceId(traceContext(given) ?? '')).toBe(TRACE);
});

test.each([
  ['empty', ''],
  ['upper case', GOOD.toUpperCase()],
  ['version ff', `ff-${TRACE}-${PARENT}-01`],
  ['no trace id', `00-${'0'.repeat(32)}-${PARENT}-01`],
  ['no parent id', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['a short trace id', `00-${TRACE.slice(1)}-${PARENT}-01`],
  ['version 00 with more behind it', `${GOOD}-more`],
  ['two of them in one', `${GOOD}, ${GOOD}`],
  ['no flags', `00-${TRACE}-${PARENT}`],
])('a malformed one is none: %s', (_, given) => {
  expect(traceContext(given)).toBeUndefined();
});
