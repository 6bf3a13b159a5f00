// The names and numbers that `@huggingface/gguf` exports.

/** An enumeration as TypeScript compiles it: names to numbers, and numbers to names. */
function enumeration(numbers) {
  const both = {};
  for (const [name, number] of Object.entries(numbers)) {
    both[name] = number;
    both[number] = name;
  }
  return Object.freeze(both);
}

export const GGUFValueType = enumeration({
  UINT8: 0, INT8: 1, UINT16: 2, INT16: 3, UINT32: 4, INT32: 5, FLOAT32: 6, BOOL: 7, STRING: 8, ARRAY: 9,
  UINT64: 10, INT64: 11, FLOAT64: 12,
});

/** Tensor types: number, block size, bytes per block. */
const TYPES = {
  F32: [0, 1, 4], F16: [1, 1, 2], Q4_0: [2, 32, 18], Q4_1: [3, 32, 20], Q5_0: [6, 32, 22], Q5_1: [7, 32, 24],
  Q8_0: [8, 32, 34], Q8_1: [9, 32, 36], Q2_K: [10, 256, 84], Q3_K: [11, 256, 110], Q4_K: [12, 256, 144],
  Q5_K: [13, 256, 176], Q6_K: [14, 256, 210], Q8_K: [15, 256, 292], IQ2_XXS: [16, 256, 66],
  IQ2_XS: [17, 256, 74], IQ3_XXS: [18, 256, 98], IQ1_S: [19, 256, 50], IQ4_NL: [20, 32, 18],
  IQ3_S: [21, 256, 110], IQ2_S: [22, 256, 82], IQ4_XS: [23, 256, 136], I8: [24, 1, 1], I16: [25, 1, 2],
  I32: [26, 1, 4], I64: [27, 1, 8], F64: [28, 1, 8], IQ1_M: [29, 256, 56], BF16: [30, 1, 2],
  TQ1_0: [34, 256, 54], TQ2_0: [35, 256, 66], MXFP4: [39, 32, 17], NVFP4: [40, 64, 36], Q1_0: [41, 128, 18],
  Q2_0: [42, 64, 18],
};

export const GGMLQuantizationType = enumeration(
  Object.fromEntries(Object.entries(TYPES).map(([name, [number]]) => [name, number])),
);

/** Descriptions of the tensor types. */
export const GGUF_QUANT_DESCRIPTIONS = Object.freeze(
  Object.fromEntries(
    Object.values(TYPES).map(([number, elements, bytes]) => {
      const bits = (bytes * 8) / elements;
      const txt =
        elements === 1
          ? `Not quantized: ${bits} bits per weight.`
          : `Blocks of ${elements} weights in ${bytes} bytes: ${bits} bits per weight.`;
      return [number, Object.freeze({ txt })];
    }),
  ),
);

const FILE_TYPES = {
  F32: 0, F16: 1, Q4_0: 2, Q4_1: 3, Q4_1_SOME_F16: 4, Q4_2: 5, Q4_3: 6, Q8_0: 7, Q5_0: 8, Q5_1: 9, Q2_K: 10,
  Q3_K_S: 11, Q3_K_M: 12, Q3_K_L: 13, Q4_K_S: 14, Q4_K_M: 15, Q5_K_S: 16, Q5_K_M: 17, Q6_K: 18, IQ2_XXS: 19,
  IQ2_XS: 20, Q2_K_S: 21, IQ3_XS: 22, IQ3_XXS: 23, IQ1_S: 24, IQ4_NL: 25, IQ3_S: 26, IQ3_M: 27, IQ2_S: 28,
  IQ2_M: 29, IQ4_XS: 30, IQ1_M: 31, BF16: 32, Q4_0_4_4: 33, Q4_0_4_8: 34, Q4_0_8_8: 35, TQ1_0: 36, TQ2_0: 37,
  MXFP4_MOE: 38, NVFP4: 39, Q1_0: 40, Q2_0: 41,
  // Types in file names that are not values of general.file_type.
  Q2_K_XL: 1000, Q3_K_XL: 1001, Q4_K_XL: 1002, Q5_K_XL: 1003, Q6_K_XL: 1004, Q8_K_XL: 1005,
};

export const GGMLFileQuantizationType = enumeration(FILE_TYPES);

/** File types, ordered from the largest to the smallest. */
export const GGUF_QUANT_ORDER = (
  "F32 BF16 F16 Q8_K_XL Q8_0 Q6_K_XL Q6_K Q5_K_XL Q5_K_M Q5_K_S Q5_0 Q5_1 Q4_K_XL Q4_K_M Q4_K_S IQ4_NL IQ4_XS " +
  "Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 Q4_1_SOME_F16 Q4_0 Q4_1 Q4_2 Q4_3 MXFP4_MOE NVFP4 Q3_K_XL Q3_K_L Q3_K_M Q3_K_S " +
  "IQ3_M IQ3_S IQ3_XS IQ3_XXS Q2_K_XL Q2_K Q2_K_S IQ2_M IQ2_S IQ2_XS IQ2_XXS Q2_0 IQ1_S IQ1_M TQ1_0 TQ2_0 Q1_0"
)
  .split(" ")
  .map((name) => FILE_TYPES[name]);

/** Types in file names. The tensor type MXFP4 is also used in file names, and must follow MXFP4_MOE. */
const QUANTS = [...Object.keys(FILE_TYPES), "MXFP4"];

export const GGUF_QUANT_RE = new RegExp(`(?<prefix>UD-)?(?<quant>${QUANTS.join("|")})(_(?<sizeVariation>[A-Z]+))?`);
export const GGUF_QUANT_RE_GLOBAL = new RegExp(GGUF_QUANT_RE, "g");

/** Returns the type in a file name; the last one if there are several. */
export function parseGGUFQuantLabel(name) {
  return name.toUpperCase().match(GGUF_QUANT_RE_GLOBAL)?.at(-1);
}

/** Returns the largest available type that is not larger than `wanted`, or else the smallest available one. */
export function findNearestQuantType(wanted, available) {
  const place = (type) => GGUF_QUANT_ORDER.indexOf(type);
  const known = available.filter((type) => place(type) >= 0).sort((one, other) => place(one) - place(other));
  return known.find((type) => place(type) >= place(wanted)) ?? known.at(-1);
}
