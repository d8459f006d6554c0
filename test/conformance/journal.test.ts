import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { VENV } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { CONFORMANCE } from './selection.mjs';

const PYTHON = join(process.env.ORACLE_VENV ?? VENV, 'bin', 'python');
const LIMIT_MS = 240_000;

describe.skipIf(!existsSync(PYTHON))('with the journal on (needs the Python packages that npm test installs)', () => {
  test(
    'the recorded cases of sequences pass, and what was recorded of them is the same when it runs again',
    async () => {
      const args = [join(CONFORMANCE, 'run.mjs'), '--journal', 'on', '--case', 'sequence_*'];
      const { code, output } = await runCommand(process.execPath, args, { limitMs: LIMIT_MS });
      expect(code, output).toBe(0);
      expect(output).toMatch(/^none: [1-9]\d* recordings are equal, 0 differ/m);
    },
    LIMIT_MS,
  );
});
