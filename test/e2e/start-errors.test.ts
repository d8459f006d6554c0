import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { runCli } from '../command.mjs';
import { freePorts } from '../free-ports.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

const SAMPLES = join(ROOT, 'model_repository');
const BROKEN = join(ROOT, 'test', 'conformance', 'repo', 'broken_onnx');

let occupied: Server;
let occupiedPort: number;
let free: number[];
let folder: ModelFolder;

beforeAll(async () => {
  occupied = createServer().listen(0, '0.0.0.0');
  await once(occupied, 'listening');
  const address = occupied.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  occupiedPort = address.port;
  free = await freePorts(3);
  folder = createModelFolder();
  folder.addJavaScript('does_not_parse', 'export function execute( {');
});

afterAll(() => {
  occupied.close();
  folder.remove();
});

const ports = (http = free[0], metrics = free[2], grpc = free[1]) => [
  `--http-port=${http}`,
  `--grpc-port=${grpc}`,
  `--metrics-port=${metrics}`,
];

const cases: [rule: string, flags: () => string[], code: number, text: RegExp][] = [
  ['an unknown flag names the nearest', () => ['--http-prot=1'], 2, /--http-prot.*--http-port/],
  ['a value of the wrong type names the flag', () => ['--http-port=many'], 2, /--http-port/],
  [
    'a missing repository is named',
    () => [...ports(), '--model-repository=/nowhere/models'],
    4,
    /\/nowhere\/models.*--model-repository/,
  ],
  [
    'a file is no repository',
    () => [...ports(), `--model-repository=${join(ROOT, 'package.json')}`],
    4,
    /package\.json.*folder/,
  ],
  [
    'a host policy that is none',
    () => [...ports(), `--model-repository=${SAMPLES}`, '--host-policy=p,cpu-cores=all'],
    2,
    /--host-policy: 'p,cpu-cores=all' is not allowed; give <name>,cpu-cores=/,
  ],
  [
    'a host policy of cores that there are not',
    () => [...ports(), `--model-repository=${SAMPLES}`, '--host-policy=p,cpu-cores=0-8191'],
    2,
    /--host-policy: p,cpu-cores=0-8191: this process cannot use core .*8191; give cores/,
  ],
  ['a model that does not load', () => [...ports(), `--model-repository=${BROKEN}`], 4, /broken/],
  ['a model whose code does not parse', () => [...ports(), `--model-repository=${folder.path}`], 4, /does_not_parse/],
  [
    'an HTTP port in use names the flag',
    () => [...ports(occupiedPort), `--model-repository=${SAMPLES}`],
    1,
    /another process.*--http-port/,
  ],
  [
    'a metrics port in use names the flag',
    () => [...ports(free[0], occupiedPort), `--model-repository=${SAMPLES}`],
    1,
    /another process.*--metrics-port/,
  ],
  [
    'a gRPC port in use names the flag',
    () => [...ports(free[0], free[2], occupiedPort), `--model-repository=${SAMPLES}`],
    1,
    /another process.*--grpc-port/,
  ],
];

test.each(cases)('%s', async (_rule, flags, code, text) => {
  const ending = await runCli(['serve', ...flags()]).ended;
  expect(ending.code, ending.output).toBe(code);
  const lines = ending.output.split('\n').filter((line) => line.startsWith('nereid'));
  expect(lines, ending.output).toHaveLength(1);
  expect(lines[0]).toMatch(text);
  expect(ending.output, 'no stack trace').not.toMatch(/^\s+at .*:\d+:\d+\)?$/m);
});

test('--help explains and ends with 0', async () => {
  const ending = await runCli(['serve', '--help']).ended;
  expect(ending.code).toBe(0);
  for (const flag of ['--model-repository', '--http-port', '--metrics-port', '--exit-on-error']) {
    expect(ending.output).toContain(flag);
  }
});
