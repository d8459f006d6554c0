import type { Datatype } from '@nereid/protocol';
import {
  ModelSequenceBatching_Control_Kind as Kind,
  type ModelConfig,
  type ModelSequenceBatching,
} from './gen/model_config_pb.ts';
import { protocolDatatype } from './protocol-datatype.ts';

export type ControlKind = 'START' | 'END' | 'READY' | 'CORRID';

/** An input that tells the model of a step's flags or id, and that no request has. */
export interface ControlSignature {
  /** The model's input. */
  readonly name: string;
  readonly kind: ControlKind;
  readonly datatype: Datatype;
  /** Its values for false and true; not of CORRID. */
  readonly falseTrue: readonly [number, number];
}

/** Contents of a state at the START of a sequence: zeros, or a file's bytes in the model's folder `initial_state`. */
export interface InitialStateSignature {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly number[];
  /** Undefined for zeros. */
  readonly file: string | undefined;
}

/** A tensor that the model gives at one step and gets at the next of the same sequence. */
export interface StateSignature {
  readonly inputName: string;
  readonly outputName: string;
  readonly datatype: Datatype;
  /** Without the batch dimension; -1 is variable. */
  readonly dims: readonly number[];
  readonly initial: InitialStateSignature | undefined;
  /** `use_growable_memory`, which only instances on a GPU may. */
  readonly growable: boolean;
}

/** How a model keeps sequences (model_config.proto, ModelSequenceBatching). */
export interface SequenceSignature {
  /** `direct`: a sequence's slot is its row in each batch. */
  readonly strategy: 'direct' | 'oldest';
  /** Sequences that one instance keeps at a time. */
  readonly slots: number;
  /** Requests are sequences by themselves, which the model runs step by step until it has done with them. */
  readonly iterative: boolean;
  readonly controls: readonly ControlSignature[];
  readonly states: readonly StateSignature[];
}

const CONTROL_KINDS: Readonly<Record<Kind, ControlKind>> = {
  [Kind.CONTROL_SEQUENCE_START]: 'START',
  [Kind.CONTROL_SEQUENCE_END]: 'END',
  [Kind.CONTROL_SEQUENCE_READY]: 'READY',
  [Kind.CONTROL_SEQUENCE_CORRID]: 'CORRID',
};

/** Sequences that one instance keeps at a time. */
export function slotsOf({ maxBatchSize }: ModelConfig, { strategyChoice: strategy }: ModelSequenceBatching): number {
  const candidates = strategy.case === 'oldest' ? strategy.value.maxCandidateSequences : 0;
  return candidates > 0 ? candidates : Math.max(1, maxBatchSize);
}

/** Undefined where the config asks for no sequences. Takes a completed and checked config. */
export function sequenceSignature(config: ModelConfig): SequenceSignature | undefined {
  const { case: choice, value: batching } = config.schedulingChoice;
  if (choice !== 'sequenceBatching') return undefined;
  return {
    strategy: batching.strategyChoice.case === 'oldest' ? 'oldest' : 'direct',
    slots: slotsOf(config, batching),
    iterative: batching.iterativeSequence,
    controls: batching.controlInput.flatMap(({ name, control }) =>
      control.map((one): ControlSignature => {
        const { kind, int32FalseTrue: int32, fp32FalseTrue: fp32, boolFalseTrue: bool, dataType } = one;
        const falseTrue = int32.length > 0 ? int32 : fp32.length > 0 ? fp32 : bool.map(Number);
        const pairs = int32.length > 0 ? 'INT32' : fp32.length > 0 ? 'FP32' : 'BOOL';
        const datatype = kind === Kind.CONTROL_SEQUENCE_CORRID ? (protocolDatatype(dataType) ?? 'UINT64') : pairs;
        return { name, kind: CONTROL_KINDS[kind], datatype, falseTrue: [falseTrue[0] ?? 0, falseTrue[1] ?? 1] };
      }),
    ),
    states: batching.state.map((state): StateSignature => {
      const initial = state.initialState[0];
      return {
        inputName: state.inputName,
        outputName: state.outputName,
        datatype: protocolDatatype(state.dataType) ?? 'FP32',
        dims: state.dims.map(Number),
        growable: state.useGrowableMemory,
        initial:
          initial === undefined
            ? undefined
            : {
                name: initial.name,
                datatype: protocolDatatype(initial.dataType) ?? 'FP32',
                dims: initial.dims.map(Number),
                file: initial.stateData.case === 'dataFile' ? initial.stateData.value : undefined,
              },
      };
    }),
  };
}
