import { medianGapMs, unexcused } from './figures.mjs';

const OWNER_GAP_MS_MAX = 3_000;
const HEALTHY_MS_MAX = 5_000;

/** What is wrong with a run, in words, however long things took. */
export function problemsOf(result) {
  return [
    ...unexcused(result).map(({ outcome, text }) => `${outcome}: ${text}`),
    ...result.jobProblems,
    ...result.sequenceProblems,
    ...result.producerCodes.filter((code) => code !== 0).map((code) => `a producer ended with ${code}`),
    ...result.held,
    ...[...result.left, ...result.leftAtEnd].map((what) => `left: ${what}`),
    ...result.endings.filter(({ code }) => code !== 0).map(({ code, output }) => `ended with ${code}:\n${output}`),
    ...result.faults
      .filter(({ healthyMs }) => !Number.isFinite(healthyMs))
      .map(({ round, kind, role }) => `round ${round + 1}, ${kind} ${role}: never healthy again`),
    ...noneRefused(result.faults),
  ];
}

/** What took too long: as much longer is allowed as `timeScale` says. */
export function latenessOf({ faults }, { timeScale }) {
  const median = medianGapMs(faults, 'coordinator');
  const gapMax = OWNER_GAP_MS_MAX * timeScale;
  const healthyMax = HEALTHY_MS_MAX * timeScale;
  return [
    ...faults
      .filter(({ healthyMs }) => Number.isFinite(healthyMs) && healthyMs > healthyMax)
      .map(({ round, kind, role, healthyMs }) => `round ${round + 1}, ${kind} ${role}: ${healthyMs} ms to be healthy`),
    ...(median === undefined || median < gapMax ? [] : [`the gap after a coordinator's death is ${gapMax} ms or more`]),
  ];
}

/**
 * A coordinator that was stopped for longer than its lease is asked as an owner that it no longer is, or speaks as one:
 * either is to be refused.
 */
function noneRefused(faults) {
  const pauses = faults.filter(({ kind, role }) => kind === 'pause' && role === 'coordinator');
  if (pauses.length === 0 || pauses.some(({ stale }) => stale.worker + stale.coordinator > 0)) return [];
  return ['no message of or to a stopped coordinator was refused'];
}
