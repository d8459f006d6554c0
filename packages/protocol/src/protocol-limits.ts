/** Bounds of the codecs that no option changes. */

/** Members of one JSON object that the v2 request defines or passes on. */
export const JSON_MEMBERS_MAX = 4_096;
/** Entries of a request's `inputs` or `outputs`. */
export const REQUEST_TENSORS_MAX = 4_096;
/** Entries of a gRPC request's `parameters`, or of those of one of its tensors. */
export const REQUEST_PARAMETERS_MAX = 4_096;
/** Dimensions of one shape. */
export const SHAPE_DIMENSIONS_MAX = 1_024;
/** The part of a message frame before its tensors. */
export const FRAME_HEADER_BYTES_MAX = 16_777_216;
/** The header line of a journal file, its end of line not among them. */
export const JOURNAL_HEADER_BYTES_MAX = 65_536;

/** Answers of one stream that `done` and `response_stats` tell of one by one, the first ones. */
export const RESPONSES_COUNTED_MAX = 1_024;

/** Bounds of one request body, set by the caller. */
export interface RequestLimits {
  /** How deep arrays and objects may nest below a member of the request. */
  readonly json_depth_max: number;
  /** JSON elements over all inputs of a request. */
  readonly elements_max: number;
  /** Bytes of the JSON text, and of one input that came as JSON in its binary form. */
  readonly bytes_max: number;
}

/** Bounds of what the typed contents of one gRPC request become, set by the caller. */
export interface GrpcRequestLimits {
  /** Values in typed contents, over all inputs. */
  readonly elements_max: number;
  /** Bytes of one input that came in typed contents, in its binary form. */
  readonly bytes_max: number;
}

/** The last and, negative, the first millisecond of which JavaScript knows the date. */
export const WALL_MS_MAX = 8.64e15;
