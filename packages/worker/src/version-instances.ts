/** The instances of a version as its config wants them. */
import { join } from 'node:path';
import {
  carrierKind,
  carrierSettings,
  type ExpandedInstance,
  type ModelConfig,
  modelConfigJson,
  warmupSamples,
} from '@nereid/config';
import type { HostingOptions, VersionSource } from './hosted-version.ts';
import { createInstance, type Instance, type InstanceOptions } from './instance.ts';
import type { OpenLine } from './instance-line.ts';
import { limitInstance } from './limited-instance.ts';
import { type InstanceLaunch, processLine } from './process-line.ts';
import type { RateGate } from './rate-limits.ts';
import { threadLine } from './thread-line.ts';

const NO_LAUNCH: InstanceLaunch = { prefix: [] };

/** An instance that waits for its resources where the rate limiter has a gate for it. */
export function gatedInstance(
  { signature }: VersionSource,
  gate: RateGate | undefined,
  changed: () => void,
  create: (changed: () => void) => Instance,
): Instance {
  return gate === undefined ? create(changed) : limitInstance(create, gate, changed, signature.sequence !== undefined);
}

export function instanceOf(
  source: VersionSource,
  hosting: HostingOptions,
  modelDirectory: string,
  expanded: ExpandedInstance,
  told: Pick<InstanceOptions, 'changed' | 'stateLost'>,
): Instance {
  const { config, signature, version } = source;
  const { index, name, device, passive } = expanded;
  const { clock, log, limits, backendSettings, caller } = hosting;
  return createInstance({
    index,
    passive,
    clock,
    log,
    limits,
    open: carrierLine({ config, hosting, name }, hosting.launch(expanded)),
    executionTimeoutMs: carrierSettings(config).executionTimeoutMs,
    caller,
    ...told,
    setup: {
      config,
      signature,
      configJson: modelConfigJson(config),
      version,
      modelDirectory,
      versionDirectory: join(modelDirectory, version),
      instanceName: name,
      device,
      // Triton warms up those that requests can come to.
      warmup: passive ? [] : warmupSamples(config),
      callsMax: limits.model_calls_max,
      settings: { ...backendSettings[''], ...backendSettings[config.backend] },
    },
  });
}

/** What carries an instance; one that its model wants in a thread is not bound by a host policy. */
function carrierLine(
  { config, hosting, name }: { config: ModelConfig; hosting: HostingOptions; name: string },
  launch: InstanceLaunch | undefined,
): OpenLine {
  const { clock, log, spawn, spawnProcess } = hosting;
  const settings = carrierSettings(config);
  if (carrierKind(settings, launch !== undefined) === 'process') {
    return processLine(spawnProcess, launch ?? NO_LAUNCH, clock, log);
  }
  if (launch !== undefined) {
    const command = launch.prefix.join(' ');
    const fix = "leave the parameter 'nereid.carrier' out or set it to process";
    log.warn({ model: config.name, instance: name }, `a thread is not bound by its host policy (${command}): ${fix}`);
  }
  return threadLine(spawn);
}
