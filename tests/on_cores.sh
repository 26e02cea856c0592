#!/usr/bin/env bash
# Whether training gives the same bits on machines of 1, 2 and 4 cores, which QEMU makes of this one:
# tests/on_cores.sh --build=build/release --kernel=vmlinuz. Needs qemu-system-x86, busybox-static, cpio, and a Linux kernel with a serial
# console built in, such as that of Debian's linux-image-cloud-amd64 (unpacked by dpkg-deb -x). Ends with 77 where one is missing.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

build=build/release kernel=
for word in "$@"; do
  case $word in
    --build=*) build=${word#*=} ;;
    --kernel=*) kernel=${word#*=} ;;
    *) echo "$0: expected --build=DIR --kernel=FILE, found $word" >&2; exit 2 ;;
  esac
done
for tool in qemu-system-x86_64 busybox cpio; do
  if ! command -v $tool >/dev/null; then echo "skipped: no $tool"; exit 77; fi
done
if [ ! -r "$kernel" ]; then echo "skipped: no kernel at --kernel=$kernel"; exit 77; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,lib64}
cp "$(command -v busybox)" "$root/bin/"
cp "$build/colonnade" "$root/bin/"
for library in $(ldd "$build/colonnade" | grep -oE '/[^ ]+'); do
  mkdir -p "$root${library%/*}"
  cp -L "$library" "$root$library"
done

cat >"$root/init" <<'END'
#!/bin/busybox sh
busybox() { /bin/busybox "$@"; }
busybox mount -t proc proc /proc; busybox mount -t sysfs sys /sys
cd /  # in memory
echo "cores: $(busybox nproc)"
for plan in hybrid data; do
  for run in '--model=lenet --batch=32' '--model=resnet20 --width=0.25 --batch=8'; do
    /bin/colonnade train $run --data=synthetic --plan=$plan --devices=4 --threads-per-device=1 --steps=20 --backend=cpu \
      --save=weights --json 2>errors | busybox sed -n 's/.*"losses":\[\([^]]*\)\].*/\1/p' >losses
    [ -s weights ] || busybox cat errors
    echo "bits: $plan $run: $(busybox cat losses weights | busybox sha256sum)"
    busybox rm -f weights
  done
done
busybox poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd"

for cores in 1 2 4; do
  qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp $cores -m 3072 -nic none -nographic -no-reboot -kernel "$kernel" \
    -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1' </dev/null | tr -d '\r' >"$work/console"
  if ! grep -q "cores: $cores\$" "$work/console"; then echo "no machine of $cores cores:"; cat "$work/console"; exit 1; fi
  echo "-- $cores cores"
  grep '^bits: ' "$work/console" | tee "$work/$cores"
  if [ "$(wc -l <"$work/$cores")" != 4 ]; then cat "$work/console"; exit 1; fi
  if ! cmp -s "$work/1" "$work/$cores"; then echo "other bits than on 1 core"; exit 1; fi
done
echo "the same bits on 1, 2 and 4 cores"
