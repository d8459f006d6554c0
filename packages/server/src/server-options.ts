import type { Log } from '@nereid/runtime';

export interface ListenerOptions {
  /** Default 0.0.0.0. */
  readonly address?: string;
  /** 0 takes any free port; `urls` tells which. */
  readonly port: number;
}

export interface HttpOptions extends ListenerOptions {
  /** Largest request body in bytes, 64 MiB by default. */
  readonly maxInputBytes?: number;
}

/** All roles in the caller's process. Names are those of the flags (docs/flags.md) where there is one. */
export interface ServerOptions {
  /** Folders that hold one folder per model. */
  readonly modelRepositories: readonly string[];
  /** `none` loads every model at start; `explicit` only `loadModels` and what `loadModel` is called for. */
  readonly modelControlMode?: 'none' | 'explicit';
  /** For `explicit`: names, or `['*']` for all. */
  readonly loadModels?: readonly string[];
  /** With true (the default) a model that does not load at start makes `createServer` throw. */
  readonly exitOnError?: boolean;
  /** With true (the default) the server is ready only while every model is. */
  readonly strictReadiness?: boolean;
  /** Fill what a config leaves out from the model's own file; true by default. */
  readonly autoCompleteConfig?: boolean;
  /** Take `configs/<name>.pbtxt` in place of `config.pbtxt` where a model has it. */
  readonly modelConfigName?: string;
  /** Versions that load at the same time, 4 by default. */
  readonly modelLoadThreads?: number;
  /** By backend name, '' for all: key to value. */
  readonly backendConfig?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The server's name in its metadata, `triton` by default as there. */
  readonly id?: string;
  /** No HTTP listener without it. */
  readonly http?: HttpOptions;
  /** No metrics listener without it. */
  readonly metrics?: ListenerOptions;
  /** No log without it. */
  readonly log?: Log;
}
