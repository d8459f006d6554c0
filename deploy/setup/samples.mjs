import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, SAMPLES, setting } from './checkout.mjs';
import { SetupError } from './command.mjs';
import { say } from './progress.mjs';
import { ensurePython } from './python.mjs';
import { MAGIKA } from './sample-magika.mjs';
import { MINILM } from './sample-minilm.mjs';
import { SILERO } from './sample-silero.mjs';
import { hashOf, isStamped, writeStamp } from './stamp.mjs';

const SAMPLE_MODELS = [MAGIKA, SILERO, MINILM];

/**
 * The folder of the sample models that are not in the repository; undefined where there are none, or not the one that
 * is named.
 *
 * @param {string} [name]
 */
export function sampleRepository(name) {
  const names = name === undefined ? SAMPLE_MODELS.map((sample) => sample.name) : [name];
  return samplesWanted() && names.some(isThere) ? SAMPLES : undefined;
}

/** `NEREID_SAMPLES=none` leaves out the samples that are downloaded. */
function samplesWanted() {
  return setting('NEREID_SAMPLES') !== 'none';
}

function isThere(name) {
  return existsSync(join(SAMPLES, name, '1', 'model.onnx'));
}

/**
 * The sample models whose weights are downloaded, as Triton model folders, all at once since they wait for the network.
 * Set-up goes on without those that cannot be fetched.
 */
export async function ensureSamples() {
  if (!samplesWanted()) return;
  const keyOf = ({ pins }) => hashOf({ texts: pins });
  const wanted = SAMPLE_MODELS.filter(
    (sample) => !isStamped(`sample-${sample.name}`, keyOf(sample)) || !isThere(sample.name),
  );
  if (wanted.length === 0) return;
  const environment = wanted.some(({ needsPython }) => needsPython) ? await ensurePython() : {};
  await Promise.all(
    wanted.map(async (sample) => {
      const missing = await make(sample, environment);
      if (missing === undefined) writeStamp(`sample-${sample.name}`, keyOf(sample));
      else say(`the sample model ${sample.name} is left out: ${missing}`);
    }),
  );
}

/** @returns {Promise<string | undefined>} what hindered it */
async function make(sample, { python, missing }) {
  if (sample.needsPython && missing !== undefined) return missing;
  // Made aside and put in place when whole.
  const folder = join(CACHE, 'samples-new', sample.name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  try {
    const model = join(folder, 'model');
    await sample.make({ model, scratch: folder, python });
    rmSync(join(SAMPLES, sample.name), { recursive: true, force: true });
    mkdirSync(SAMPLES, { recursive: true });
    renameSync(model, join(SAMPLES, sample.name));
    return undefined;
  } catch (error) {
    // A stop of the whole set-up is not a sample that is missing.
    if (!(error instanceof SetupError) || error.exitCode !== 1) throw error;
    return error.message;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
