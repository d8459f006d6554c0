import { expect, test } from 'vitest';
import { jsonText, parseJson } from './json.ts';

test.each<[string, unknown]>([
  ['{"a":[1,-2.5e3,"1234567890123456789",true,null]}', { a: [1, -2500, '1234567890123456789', true, null] }],
  ['[9007199254740993,-9223372036854775808,18446744073709551615]', [9007199254740993n, -(2n ** 63n), 2n ** 64n - 1n]],
  [
    '[1234567890123456,1234567890123456.5,1234567890123456e2]',
    [1234567890123456, 1234567890123456.5, 1234567890123456e2],
  ],
  ['[0.9876130000054836,-1.5e-10,-0.1234567890123456789]', [0.9876130000054836, -1.5e-10, -0.12345678901234568]],
  ['[NaN,Infinity,-Infinity,"NaN","\\"Infinity"]', [Number.NaN, Infinity, -Infinity, 'NaN', '"Infinity']],
  ['{"NaN":"a\\\\","b":NaN}', { NaN: 'a\\', b: Number.NaN }],
])('%s is read exactly', (text, value) => {
  expect(parseJson(text)).toEqual(value);
});

test('what is no JSON is refused with odd literals too', () => {
  expect(() => parseJson('{NaN}')).toThrow(SyntaxError);
  expect(() => parseJson('[1234567890123456789')).toThrow(SyntaxError);
});

test('a bigint is an integer, what is not there is left out', () => {
  const text = jsonText({ a: 2n ** 64n - 1n, b: [1n, 1.5, 'x"', null], c: undefined, 'd"': { e: false } });
  expect(text).toBe('{"a":18446744073709551615,"b":[1,1.5,"x\\"",null],"d\\"":{"e":false}}');
});
