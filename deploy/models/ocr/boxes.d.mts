export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}
export declare function textBoxes(
  map: { readonly width: number; readonly height: number; readonly data: Float32Array },
  image: { readonly width: number; readonly height: number },
): Box[];
