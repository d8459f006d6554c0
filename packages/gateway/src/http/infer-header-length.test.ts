import { expect, it } from 'vitest';
import { inferHeaderLength } from './infer-header-length.ts';

const range = (text: string) => `inference header size should be in range (0, 338), got: ${text}`;
const unparsed = (text: string) => `Unable to parse Inference-Header-Content-Length, got: ${text}`;

it.each<readonly [string | undefined, number | undefined | string]>([
  [undefined, undefined],
  ['0', 0],
  ['200', 200],
  ['+200', 200],
  [' 0338 ', 338],
  ['many', 0],
  ['', 0],
  ['339', range('339')],
  ['100000', range('100000')],
  ['-1', range('-1')],
  ['99999999999999999999', range('99999999999999999999')],
  ['12abc', unparsed('12abc')],
  ['10, 10', unparsed('10, 10')],
  ['1.5', unparsed('1.5')],
])('header length %j of 338 bytes is %j', (value, expected) => {
  const found = inferHeaderLength(value, 338);
  expect(found.ok ? found.length : found.error.message).toBe(expected);
});
