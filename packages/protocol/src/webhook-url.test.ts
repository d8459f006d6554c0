import { expect, test } from 'vitest';
import { webhookUrl } from './webhook-url.ts';

test.each(['http://a.example', 'https://a.example:8443/x?y=1', 'http://[::1]/'])('%s is one', (url) => {
  expect(webhookUrl(url, 'webhook')).toBe(url);
});

test('none is none', () => expect(webhookUrl(undefined, 'webhook')).toBeUndefined());

test.each<[unknown, RegExp]>([
  [5, /of type number/],
  [null, /of type null/],
  ['', /got: $/],
  ['a.example/x', /got: a.example/],
  ['http://a.example/, http://b.example/', /has a blank/],
  ['http://a.example/\n', /has a blank or a control character/],
  ['ftp://a.example', /got: ftp/],
  ['file:///etc/passwd', /got: file/],
  ['https://me:secret@a.example', /leave user and password out/],
  [`https://a.example/${'x'.repeat(2_048)}`, /more than 2048/],
])('%s is refused, naming the field', (value, text) => {
  expect(() => webhookUrl(value, 'Nereid-Webhook')).toThrow(text);
  expect(() => webhookUrl(value, 'Nereid-Webhook')).toThrow(/^Nereid-Webhook must be a URL/);
});
