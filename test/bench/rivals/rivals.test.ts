import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy } from '../../deployment.mjs';
import { freePorts } from '../../free-ports.mjs';
import { makeBenchModels } from '../models/make.mjs';
import { type BenchRow, RIVALS, type RivalRequest } from './rivals.mjs';
import { v2Request } from './v2-wire.mjs';

const folder = mkdtempSync(join(tmpdir(), 'nereid-rivals-'));
makeBenchModels(folder);
const rows = ['add_sub', 'mlp', 'identity_600k', 'sleep10'].flatMap((model) =>
  (['json', 'binary'] as const).map((encoding) => ({ model, encoding })),
);
const rivals = await Promise.all(RIVALS.map(async (rival) => ({ rival, missing: await rival.missing() })));

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** What is wrong with the answer to a request that may be another one than the check expects. */
async function ask(port: number, sent: RivalRequest, checked = sent): Promise<string | undefined> {
  const { path, headers, body } = sent;
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body });
  expect(response.status).toBe(200);
  return checked.check(Buffer.from(await response.arrayBuffer()), response.headers);
}

async function expectRight(port: number, request: (row: BenchRow) => RivalRequest, row: Omit<BenchRow, 'seed'>) {
  const wrong = await Promise.all([1, 2, 3].map((seed) => ask(port, request({ ...row, seed }))));
  expect(wrong).toEqual([undefined, undefined, undefined]);
  const mixedUp = await ask(port, request({ ...row, seed: 1 }), request({ ...row, seed: 2 }));
  expect(mixedUp).toContain(' instead of ');
}

describe.each(rivals.map(({ rival, missing }) => ({ ...rival, reason: missing })))('$name', (rival) => {
  const served = rows.filter((row) => rival.serves(row));

  describe.skipIf(rival.reason !== undefined)('answers', () => {
    let port: number;
    let stop: () => Promise<void>;
    beforeAll(async () => {
      [port = 0] = await freePorts(1);
      ({ stop } = await rival.start({ port, models: folder }));
    });
    afterAll(() => stop());

    test.each(served)('$model in $encoding as computed here, and the check sees a wrong one', async (row) => {
      await expectRight(port, rival.request, row);
    });
  });
});

describe('Nereid, asked in the same way', () => {
  let served: Deployment;
  beforeAll(async () => {
    served = await deploy('one', [folder]);
  });
  afterAll(async () => {
    await served.stop();
  });

  test.each(rows)('$model in $encoding', async (row) => {
    await expectRight(Number(new URL(served.http).port), v2Request, row);
  });
});
