# In its own namespaces: makes the chroot, or uses the present one, and runs the checks in it.
# Called by bin/matrix, in the checkout. MARK is a file that only one run at a time can lock.
#
#   chroot.sh FOLDER MARK SUITE MIRROR SERVERS [CHECK…]
set -eu
folder=$1
mark=$2
suite=$3
mirror=$4
servers=$5
shift 5
root=$folder/root

UNAVAILABLE=69
CERTIFICATES=/usr/local/share/ca-certificates
DEVICES="null zero full random urandom"

say() { echo "bin/matrix: $*" >&2; }

# The chroot has another name until it is complete, so that an incomplete one is never used.
make_chroot() {
  say "making a chroot of Debian $suite"
  rm -rf --one-file-system "$folder/partial"
  if ! debootstrap --variant=minbase --include=ca-certificates "$suite" \
    "$folder/partial" "$mirror" >"$folder/debootstrap.log" 2>&1; then
    tail -n 5 "$folder/debootstrap.log" >&2
    say "no chroot can be made here: debootstrap failed, as said above"
    exit "$UNAVAILABLE"
  fi
  # A server must not start when its package is installed.
  printf '#!/bin/sh\nexit 101\n' >"$folder/partial/usr/sbin/policy-rc.d"
  chmod 755 "$folder/partial/usr/sbin/policy-rc.d"
  umount -R "$folder/partial/proc" 2>/dev/null || :
  mv "$folder/partial" "$root"
}

# The chroot also needs the network settings and certificates of this machine.
lend_network() {
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  if [ -d "$CERTIFICATES" ]; then
    mkdir -p "$root$CERTIFICATES"
    find "$CERTIFICATES" -name '*.crt' -exec cp {} "$root$CERTIFICATES/" \;
    # the chroot may have no other certificates
    TMPDIR=/tmp chroot "$root" update-ca-certificates >/dev/null
  fi
}

mount_all() {
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=755 dev "$root/dev"
  mkdir "$root/dev/pts" "$root/dev/shm"
  for device in $DEVICES tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for number in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${number%%:*}" "$root/dev/${number#*:}"
  done
}

# Copies the files as they are now, whether committed or not.
copy_checkout() {
  rm -rf --one-file-system "$root/plock"
  mkdir "$root/plock"
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
    tar -c --null --files-from=- --ignore-failed-read | tar -x --no-same-owner -C "$root/plock"
}

# The first process of a namespace receives only signals that it traps.
trap 'exit 1' HUP INT TERM
exec 9>"$mark"
if ! flock --nonblock 9; then
  say "another run is at work in $folder"
  exit 1
fi
[ -d "$root" ] || make_chroot
lend_network
mount_all
copy_checkout
chroot "$root" /usr/bin/env -i HOME=/root \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  LANG=C.UTF-8 TERM="${TERM:-dumb}" \
  ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
  ${no_proxy:+"no_proxy=$no_proxy"} sh /plock/bin/support/matrix/checks.sh "$servers" "$@"
