import { describe, expect, test } from 'vitest';
import {
  followedJobId,
  followUpId,
  jobQueueName,
  jobQueuePrefix,
  newJobId,
  parsePublicJobId,
  publicJobId,
} from './jobs-names.ts';

test.each([
  ['simple', 'infer.simple'],
  ['a.b_c-9', 'infer.a.b_c-9'],
  ['a b:c/d~e*', 'infer.a%20b%3Ac%2Fd%7Ee%2A'],
  ['ü', 'infer.%C3%BC'],
])('the queue of model %j is %s', (model, name) => {
  expect(jobQueueName(model)).toBe(name);
});

test('%m in the prefix stands for the model', () => {
  expect(jobQueuePrefix('{bull-%m}', 'a b')).toBe('{bull-a%20b}');
});

describe('public ids', () => {
  test.each([
    ['simple', '42', 'simple~42'],
    ['a~b', 'x y~z', 'a%7Eb~x%20y%7Ez'],
  ])('of job %j %j', (model, id, text) => {
    expect(publicJobId(model, id)).toBe(text);
    expect(parsePublicJobId(text)).toEqual({ model, id });
  });

  test.each(['simple%7E42', 'simple%7e42'])('%j is one whose tilde is encoded', (text) => {
    expect(parsePublicJobId(text)).toEqual({ model: 'simple', id: '42' });
  });

  test.each(['simple', '', '~', '~x', 'x~', 'a~b~c', 'a~%', '%~a', 'm~wait', 'm~x%3Alock', 'm~nereid-gate%3A7'])(
    '%j is none',
    (text) => {
      expect(parsePublicJobId(text)).toBeUndefined();
    },
  );
});

test.each([
  ['A1', 'A1'],
  ['12', '#12'],
  ['#12', '##12'],
  ['repeat:daily:1', 'repeat:daily:1'],
  ['repeat:a:b:1', '#repeat%3Aa%3Ab%3A1'],
  ['repeat:a%3A:b:1', '#repeat%3Aa%253A%3Ab%3A1'],
])('what follows job %j is %j', (id, followUp) => {
  expect(followUpId(id)).toBe(followUp);
  expect(followedJobId(followUp)).toBe(id);
});

test('new ids are ULIDs: they sort by time and differ', () => {
  expect(newJobId(1_469_918_176_385)).toMatch(/^01ARYZ6S41[0-9A-HJKMNP-TV-Z]{16}$/);
  expect(newJobId(1) < newJobId(2)).toBe(true);
  expect(new Set(Array.from({ length: 1000 }, () => newJobId(5))).size).toBe(1000);
});
