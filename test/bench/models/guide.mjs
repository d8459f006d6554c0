import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sleep10 } from './make.mjs';

/** The optimization guide's experiment: one model that sleeps 10 ms an execution, configured in each way. */
export const GUIDE_PREFIX = 'guide_';

const MAX_BATCH = 8;

/** Two of them batch on one instance, to be loaded at once. */
const FORMS = {
  plain: { batching: false, instances: 1 },
  batched: { batching: true, instances: 1 },
  again: { batching: true, instances: 1 },
  two: { batching: false, instances: 2 },
  both: { batching: true, instances: 2 },
};

/** @returns {string} the repository */
export function writeGuideModels(folder) {
  for (const [form, options] of Object.entries(FORMS)) {
    const name = `${GUIDE_PREFIX}${form}`;
    const model = sleep10({ name, maxBatchSize: MAX_BATCH, ...options });
    mkdirSync(join(folder, name, '1'), { recursive: true });
    writeFileSync(join(folder, name, '1', model.file), model.content);
    writeFileSync(join(folder, name, 'config.pbtxt'), model.config);
  }
  return folder;
}
