import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { type Command, runScript } from '../command.mjs';
import { freePorts } from '../free-ports.mjs';
import { readAnswer, SIMPLE_SUM } from './requests.ts';
import { isPortFree } from './serve.ts';

/** All samples are loaded and asked. */
const SAMPLES_LIMIT_MS = 120_000;

let started: Command | undefined;

afterEach(() => {
  started?.process.kill('SIGKILL');
});

/** What `npm start -- FLAGS` runs. */
function start(flags: readonly string[], environment: Record<string, string> = {}): Command {
  return runScript(join(ROOT, 'deploy', 'setup', 'start.mjs'), flags, { CI: '', ...environment });
}

async function portFlags(): Promise<{ ports: number[]; flags: string[] }> {
  const ports = await freePorts(3);
  const [http, grpc, metrics] = ports;
  return { ports, flags: [`--http-port=${http}`, `--grpc-port=${grpc}`, `--metrics-port=${metrics}`] };
}

test(
  'it answers, shows the line that repeats the answer, and a signal frees the ports',
  async () => {
    const { ports, flags } = await portFlags();
    started = start(flags);
    const output = await started.waitFor(/Ctrl-C/);
    const [, url = '', body = ''] = /curl -s (\S+\/v2\/models\/simple\/infer) -d '(.+)'/.exec(output) ?? [];
    expect(url).toContain(`:${ports[0]}/`);
    const response = await fetch(url, { method: 'POST', body });
    const answer = readAnswer(response.status, await response.text());
    expect(answer.outputs.get('OUTPUT0')?.data).toEqual(SIMPLE_SUM);
    started.process.kill('SIGTERM');
    expect(await started.ended).toMatchObject({ code: 0 });
    for (const port of ports) expect(await isPortFree(port), `port ${port}`).toBe(true);
  },
  SAMPLES_LIMIT_MS,
);

test('a repository of the caller takes the place of ours', async () => {
  const { flags } = await portFlags();
  started = start([...flags, `--model-repository=${join(ROOT, 'model_repository')}`], { NEREID_SAMPLES: 'none' });
  const output = await started.waitFor(/Ctrl-C/);
  expect(output).toContain('simple: [');
  expect(output).not.toContain('magika');
  started.process.kill('SIGINT');
  expect(await started.ended).toMatchObject({ code: 0 });
});

test('a bad flag ends with the exit code of the command', async () => {
  started = start(['--no-such-flag']);
  const { code, output } = await started.ended;
  expect(code).toBe(2);
  expect(output).toContain('--no-such-flag');
});
