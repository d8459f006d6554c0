import { bytesByDevice, instancesByDevice, type ModelConfig, versionBytes } from '@nereid/config';
import type { DeviceBytes } from '@nereid/scheduler';

/** What is to be loaded at a time of one model: versions of one load. */
export interface LoadedFiles {
  readonly model: string;
  readonly config: ModelConfig;
  readonly versions: readonly string[];
  readonly contentHash: string;
  /** Only what it has beyond this config is loaded: other instances beside those that go on. */
  readonly grownFrom?: ModelConfig | undefined;
}

/** What loads take, by version: about what the files have, or more where the model's last two loads have shown it. */
export interface LoadCosts {
  of(files: LoadedFiles, directory: string): Promise<ReadonlyMap<string, DeviceBytes>>;
  /** The load begins. */
  begin(): LoadStart;
  /** Something else began or ended: what is measured now is not of one load alone. */
  disturb(): void;
  /** The load that began so is ready, of which so many bytes were thought on the CPU. */
  measure(files: LoadedFiles, start: LoadStart, thought: number): void;
}

export interface LoadStart {
  readonly bytes: number;
  readonly turn: number;
}

/** Models of which it is remembered what they took. */
const MEASURED_MAX = 4096;
/** Growth of the process below this, for each instance, is that of threads, of requests meanwhile, and of what was not given back yet. */
const NOISE_BYTES = 64 * 1024 * 1024;

/** `resident`: bytes of this process. `bound`: of the CPU's memory budget; undefined for none. */
export function createLoadCosts(resident: () => number, bound: number | undefined): LoadCosts {
  /** Bytes on the CPU by model and files, of the last load and of the one before. */
  const measured = new Map<string, readonly [last: number, before: number]>();
  /** Those that this process has loaded a model of: the first load of one brings the backend itself. */
  const backends = new Set<string>();
  let turn = 0;

  const nameOf = ({ model, contentHash }: LoadedFiles) => `${model}\0${contentHash}`;

  return {
    async of(files, directory) {
      const { config, versions } = files;
      const sizes = await Promise.all(versions.map((version) => versionBytes(directory, version)));
      const costs = sizes.map((size) => beyond(bytesByDevice(config, size), files.grownFrom, size));
      const thought = costs.reduce((sum, { cpu = 0 }) => sum + cpu, 0);
      // What was measured may be wrong, so it makes no model too large for its worker: such a one is loaded by itself.
      const isWhole = files.grownFrom === undefined;
      const shown = isWhole ? Math.min(...(measured.get(nameOf(files)) ?? [0])) : 0;
      const known = Math.min(shown, Math.max(thought, bound ?? Number.POSITIVE_INFINITY));
      const grown = known > thought && thought > 0 ? known / thought : 1;
      return new Map(
        versions.map((version, index) => {
          const { cpu, ...others } = costs[index] ?? {};
          return [version, cpu === undefined ? others : { ...others, cpu: Math.ceil(cpu * grown) }];
        }),
      );
    },
    begin: () => ({ bytes: resident(), turn: ++turn }),
    disturb() {
      turn++;
    },
    measure(files, start, thought) {
      const { backend } = files.config;
      const isFirst = !backends.has(backend);
      backends.add(backend);
      if (isFirst || start.turn !== turn || files.grownFrom !== undefined) return;
      const grown = resident() - start.bytes;
      const instances = (instancesByDevice(files.config).get('cpu') ?? 0) * files.versions.length;
      if (grown < thought + NOISE_BYTES * instances) {
        measured.delete(nameOf(files));
        return;
      }
      const [oldest] = measured.keys();
      if (measured.size >= MEASURED_MAX && oldest !== undefined) measured.delete(oldest);
      // One alone may be a request's.
      measured.set(nameOf(files), [grown, measured.get(nameOf(files))?.[0] ?? 0]);
    },
  };
}

function beyond(cost: Record<string, number>, before: ModelConfig | undefined, size: number): Record<string, number> {
  if (before === undefined) return cost;
  const there = bytesByDevice(before, size);
  return Object.fromEntries(
    Object.entries(cost).map(([device, bytes]) => [device, Math.max(0, bytes - (there[device] ?? 0))]),
  );
}
