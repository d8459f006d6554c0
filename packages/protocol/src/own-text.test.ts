import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { decodeGenerateRequest } from './generate-request.ts';
import { ownText } from './own-text.ts';
import { decodeInferRequest } from './v2-request.ts';

const TEXTS = 100;
const BODY_BYTES = 60_000;
const LIMITS = { json_depth_max: 100, elements_max: 1_000_000, bytes_max: 8_000_000 };
const NAMED = { modelName: 'm', modelVersion: '', limits: LIMITS };

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Bytes of the heap that are taken by what is kept of as many bodies. */
function keptOf(read: (body: Buffer) => unknown, more: object = { inputs: [] }): number {
  const bodies = Array.from({ length: TEXTS }, (_, index) => String(index).padStart(36, 'x'));
  const kept: unknown[] = [];
  collect();
  const before = process.memoryUsage().heapUsed;
  for (const id of bodies) kept.push(read(bodyOf(id, more)));
  collect();
  const after = process.memoryUsage().heapUsed;
  expect(kept).toHaveLength(TEXTS);
  return after - before;
}

/** `more`: what only an infer request has. */
function bodyOf(id: string, more: object): Buffer {
  return Buffer.from(JSON.stringify({ id, parameters: { sequence_id: id, fill: 'y'.repeat(BODY_BYTES) }, ...more }));
}

const SMALL = (TEXTS * BODY_BYTES) / 2;

test('a part of a text keeps all of it, its copy does not', () => {
  const part = (body: Buffer) => body.toString('latin1').slice(10, 46);
  expect(keptOf(part)).toBeGreaterThan(SMALL);
  expect(keptOf((body) => ownText(part(body)))).toBeLessThan(SMALL);
  expect(ownText('a part that is long enough')).toBe('a part that is long enough');
});

test.each([
  ['id', (body: Buffer) => decodeInferRequest(body, NAMED).request.id],
  ['sequence_id', (body: Buffer) => decodeInferRequest(body, NAMED).request.correlationId],
])('the %s of a request does not keep its body', (_, read) => {
  expect(keptOf(read)).toBeLessThan(SMALL);
});

test('nor does the id of a generate request', () => {
  expect(keptOf((body) => decodeGenerateRequest(body, { ...NAMED, inputs: [] }).id, {})).toBeLessThan(SMALL);
});
