#!/usr/bin/env node
/**
 * Starts each server that the bench compares with and asks it each model that it serves, in each encoding, several at
 * once; every answer is checked. What is not there is "not run" with the reason.
 *
 *   node test/bench/rivals/smoke.mjs [NAME…]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../../free-ports.mjs';
import { makeBenchModels } from '../models/make.mjs';
import { RIVALS } from './rivals.mjs';

const REQUESTS = 20;
const ENCODINGS = ['json', 'binary'];

const names = process.argv.slice(2);
const models = mkdtempSync(join(tmpdir(), 'nereid-rivals-'));
try {
  const made = makeBenchModels(models);
  for (const rival of RIVALS.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const missing = await rival.missing();
    if (missing !== undefined) console.log(`${rival.name}: not run: ${missing}`);
    else await smoke(rival, made);
  }
} finally {
  rmSync(models, { recursive: true, force: true });
}

async function smoke(rival, made) {
  const [port] = await freePorts(1);
  const server = await rival.start({ port, models });
  try {
    for (const model of made) {
      for (const encoding of ENCODINGS.filter((encoding) => rival.serves({ model, encoding }))) {
        const wrong = await askMany(rival, port, { model, encoding });
        if (wrong !== undefined) process.exitCode = 1;
        console.log(`${rival.name}: ${model} ${encoding}: ${wrong ?? 'right'}`);
      }
    }
  } finally {
    await server.stop();
  }
}

/** @returns {Promise<string | undefined>} the first thing that is wrong */
async function askMany(rival, port, row) {
  const answers = Array.from({ length: REQUESTS }, async (_, seed) => {
    const { path, headers, body, check } = rival.request({ ...row, seed });
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body });
    const answer = Buffer.from(await response.arrayBuffer());
    return response.ok ? check(answer, response.headers) : `status ${response.status}: ${answer}`;
  });
  return (await Promise.all(answers)).find((wrong) => wrong !== undefined);
}
