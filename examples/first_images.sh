#!/bin/sh
# Writes Fashion-MNIST with the first images of the training set only, for builds in which a step takes a hundred times as long.
#
#   first_images.sh FROM TO COUNT     FROM and TO: folders of the four .gz files
set -eu
from=$1 to=$2 count=$3
mkdir -p "$to"
cp "$from"/t10k-*.gz "$to"

# first FILE HEADER ITEM: an IDX file with bytes per header and per item; bytes 4 to 7 are the number of items, big endian.
first() {
  size=$(printf '\\%03o\\%03o\\%03o\\%03o' $((count >> 24)) $((count >> 16 & 255)) $((count >> 8 & 255)) $((count & 255)))
  {
    zcat "$from/$1" | head -c 4
    printf "$size"
    zcat "$from/$1" | head -c $(($2 + count * $3)) | tail -c +9
  } | gzip > "$to/$1"
}
first train-images-idx3-ubyte.gz 16 784
first train-labels-idx1-ubyte.gz 8 1
