import { describe, expect, test } from 'vitest';
import { isNeverCalled, lookUpCallable, NEVER_CALLED } from './webhook-addresses.ts';

test.each([
  '169.254.169.254',
  '169.254.170.2',
  '[::ffff:169.254.169.254]',
  '[::ffff:a9fe:a9fe]',
  '[64:ff9b::a9fe:a9fe]',
  '[2002:a9fe:a9fe::1]',
  '[::a9fe:a9fe]',
  '[fe80::1]',
  'fe80::1%eth0',
  '[fd00:ec2::254]',
  '[fd00:ec2::23]',
  '[fd20:ce::254]',
  '100.100.100.200',
  '168.63.129.16',
])('%s is never called', (host) => {
  expect(isNeverCalled(host)).toBe(true);
});

test.each(['127.0.0.1', '10.0.0.1', '[::1]', '[fd00::1]', '93.184.216.34', '[2606:4700::1]', 'a.example'])(
  '%s may be',
  (host) => {
    expect(isNeverCalled(host)).toBe(false);
  },
);

describe('a name that leads', () => {
  const found = (name: string, all: boolean) =>
    new Promise((resolve) => lookUpCallable(name, { all }, (error, address) => resolve(error?.message ?? address)));

  test.each([false, true])('there is not called (all: %s)', async (all) => {
    expect(await found('169.254.169.254', all)).toBe(NEVER_CALLED);
  });

  test('elsewhere is', async () => {
    expect(await found('127.0.0.1', false)).toBe('127.0.0.1');
    expect(await found('127.0.0.1', true)).toEqual([{ address: '127.0.0.1', family: 4 }]);
  });
});
