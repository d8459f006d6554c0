import { expect, test } from 'vitest';
import { mallocProblem } from './malloc.ts';

const MAPPED = '7f00-7f01 r-xp 00000000 08:01 42 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n';
const jemalloc = (): string => MAPPED;
const tcmalloc = (): string => '/usr/lib64/libtcmalloc.so.4';
const none = (): string => '';
const unreadable = (): string => {
  throw new Error('ENOENT');
};

test.each([
  ["the system's own needs nothing", 'default', unreadable],
  ['a library that is there', 'jemalloc', jemalloc],
  ['the full build of tcmalloc', 'tcmalloc', tcmalloc],
] as const)('%s', (_, name, mapped) => {
  expect(mallocProblem(name, mapped)).toBeUndefined();
});

test.each([
  ['jemalloc', none, /libjemalloc\.so\.2.* install libjemalloc2 \(Debian, Ubuntu\)/],
  ['tcmalloc', jemalloc, /libtcmalloc_minimal\.so\.4.* install libtcmalloc-minimal4 \(Debian, Ubuntu\)/],
  ['jemalloc', unreadable, /^--malloc=jemalloc needs Linux/],
] as const)('%s that is not there: what to install, and how to start', (name, mapped, says) => {
  expect(mallocProblem(name, mapped)).toMatch(says);
});
