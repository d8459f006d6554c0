import { expect, it } from 'vitest';
import { answerCoding, bodyCoding } from './content-coding.ts';

it.each([
  [undefined, 'identity'],
  ['', 'identity'],
  ['identity', 'identity'],
  ['gzip', 'gzip'],
  ['deflate', 'deflate'],
  [' GZip ', 'gzip'],
  ['br', undefined],
  ['zstd', undefined],
  ['x-gzip', undefined],
  ['gzip, deflate', undefined],
  ['gzip, gzip', undefined],
])('Content-Encoding %s is taken as %s', (header, coding) => {
  expect(bodyCoding(header)).toBe(coding);
});

it.each([
  ['', 'identity'],
  ['gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['deflate, gzip', 'deflate'],
  ['gzip, deflate, br', 'gzip'],
  ['br, zstd', 'identity'],
  ['br;q=1, gzip;q=0.1', 'gzip'],
  ['gzip;q=0.5, deflate', 'deflate'],
  ['gzip;q=0.5,deflate;q=0.7', 'deflate'],
  ['gzip;q=0.7,deflate;q=0.7', 'gzip'],
  ['gzip;q=0.5, identity', 'identity'],
  ['gzip;q=0.5, identity;q=0.5', 'gzip'],
  ['gzip;q=0', 'identity'],
  ['gzip;q=0.000', 'identity'],
  ['*', 'identity'],
  ['*;q=0.5, deflate;q=0.1', 'deflate'],
  ['identity', 'identity'],
  ['GZIP ; Q=0.5', 'gzip'],
  ['gzip;q=high', 'identity'],
  ['gzip;q=-1', 'identity'],
  ['gzip;level=1;q=0.4, deflate;q=0.3', 'gzip'],
  [',,;;, gzip', 'gzip'],
])('Accept-Encoding %s gives %s', (header, coding) => {
  expect(answerCoding(header)).toBe(coding);
});

it('a header of any length costs no more than its length', () => {
  expect(answerCoding(`${'gzip;q=0,'.repeat(7_000)}deflate`)).toBe('deflate');
});
