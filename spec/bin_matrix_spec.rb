# frozen_string_literal: true

require "spec_helper"
require "open3"
require "tmpdir"

# The messages of bin/matrix when it makes no chroot. Only a real run can show that it makes a
# chroot, and that the steps inside work.
RSpec.describe "bin/matrix" do
  tools = %w[sh dirname id sed head ls mkdir mktemp rm tar timeout flock unshare true]

  let(:folder) { discard(Pathname(Dir.mktmpdir("plock-matrix-spec")), :rmtree) }

  # Makes a PATH with only these programs, and with a script for each keyword argument.
  def path(*names, **programs)
    bin = folder.join("bin").tap(&:mkpath)
    names.each do |name|
      real =
        ENV
          .fetch("PATH")
          .split(File::PATH_SEPARATOR)
          .map { |place| File.join(place, name) }
          .find { |file| File.executable?(file) }
      bin.join(name).make_symlink(real) if real
    end
    { git: "exit 1", **programs }.each do |name, text|
      bin.join(name.to_s).tap { |file| file.write("#!/bin/sh\n#{text}\n") }.chmod(0o755)
    end
    bin.to_s
  end

  def matrix(*arguments, path: ENV.fetch("PATH"))
    Open3.capture2e(
      { "PATH" => path, "TMPDIR" => folder.to_s }, File.expand_path("../bin/matrix", __dir__),
      *arguments
    )
  end

  it "names what is not installed, with a status of its own" do
    output, status = matrix(path: path(*tools))
    expect(output).to match(
      %r{\Abin/matrix: no chroot can be made here: not installed: debootstrap$}
    )
    expect(status.exitstatus).to be(69)
  end

  it "says in the system's own words that it may not" do
    refusing =
      path(
        *tools - %w[unshare id], debootstrap: "exit 1", id: "echo 0",
        unshare: "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"
      )
    output, status = matrix(path: refusing)
    expect(output).to include(
      "no chroot can be made here: unshare: unshare failed: Operation not permitted"
    )
    expect(status.exitstatus).to be(69)
  end

  it "prints all of its help" do
    output, status = matrix("--help")
    expect([output, status.exitstatus]).to match([/\ARuns bin.*\bexits with 69\.\n\z/m, 2])
  end

  it "asks for root" do
    output, status = matrix(path: path(*tools - %w[id], debootstrap: "exit 1", id: "echo 1000"))
    expect(output).to include("no chroot can be made here: it takes root")
    expect(status.exitstatus).to be(69)
  end

  it "does not touch a folder that has something else in it" do
    folder.join("mine").mkpath
    folder.join("mine", "data").write("1")
    allowing = path(*tools - %w[unshare id], debootstrap: "exit 1", id: "echo 0", unshare: "exit 0")
    output, status =
      matrix("--mirror", "http://127.0.0.1:1", "--chroot", folder.join("mine").to_s, path: allowing)
    expect(output).to include("is not empty, and not of an earlier run")
    expect(status.exitstatus).to be(2)
    expect(folder.join("mine").children.map { |child| child.basename.to_s }).to eq(["data"])
  end

  it "says why a chroot could not be made, and leaves nothing behind" do
    failing =
      path(
        *tools - %w[unshare id], "tail", debootstrap: "echo 'E: no such mirror'; exit 1",
        id: "echo 0",
        unshare: 'while [ "${1#--}" != "$1" ] || [ "$1" = private ]; do shift; done; "$@"'
      )
    output, status = matrix("--mirror", "http://127.0.0.1:1", path: failing)
    expect(output).to match(/E: no such mirror.*no chroot can be made here: debootstrap failed/m)
    expect(status.exitstatus).to be(69)
    expect(folder.glob("plock-matrix.*")).to be_empty
  end

  it "ends after its limit, and leaves nothing behind" do
    slow = path(*tools - %w[unshare id], "sleep", debootstrap: "exit 1", id: "echo 0",
                unshare: '[ "$4" = --kill-child ] && exit 0; exec sleep 60')
    output, status = matrix("--mirror", "http://127.0.0.1:1", "--limit", "1", path: slow)
    expect(output).to include("cut off after 1 s")
    expect(status.exitstatus).to be(1)
    expect(folder.glob("plock-matrix.*")).to be_empty
  end

  it "says how it is called" do
    [%w[--servers], %w[--server memcached], %w[--limit soon], %w[--chroot]].each do |arguments|
      output, status = matrix(*arguments)
      expect(output).to include("bin/matrix --chroot FOLDER")
      expect(status.exitstatus).to be(2)
    end
  end
end
