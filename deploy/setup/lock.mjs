import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CACHE } from './checkout.mjs';
import { say } from './progress.mjs';

const RETRY_MS = 500;
const LOCK = join(CACHE, 'setup.lock');

/** Runs `work` while no other set-up works on this checkout; the lock of a dead process does not count. */
export async function withSetupLock(work) {
  mkdirSync(CACHE, { recursive: true });
  for (let told = false; !tryLock(); told = true) {
    const holder = lockHolder();
    if (holder === undefined || !isAlive(holder)) {
      rmSync(LOCK, { force: true });
      continue;
    }
    if (!told) say(`waiting for the set-up that process ${holder} is running`);
    await delay(RETRY_MS);
  }
  try {
    return await work();
  } finally {
    rmSync(LOCK, { force: true });
  }
}

function tryLock() {
  try {
    writeFileSync(LOCK, `${process.pid}`, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function lockHolder() {
  try {
    return Number(readFileSync(LOCK, 'utf8')) || undefined;
  } catch {
    return undefined;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}
