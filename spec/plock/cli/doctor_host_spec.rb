# frozen_string_literal: true

require "spec_helper"
require "plock/cli/doctor/host"
require "tmpdir"

RSpec.describe "What plock doctor says of this host" do
  describe "the file system" do
    around { |example| Dir.mktmpdir("plock-doctor") { |folder| (@folder = File.realpath(folder)) && example.run } }

    let(:mounts) { "#{@folder}/mounts" }

    before { stub_const("Plock::CLI::Doctor::FileSystem::MOUNTS", mounts) }

    def said
      server = Struct.new(:store).new(Struct.new(:path).new("#{@folder}/locks"))
      Plock::CLI::Doctor::FileSystem.run(server).message
    end

    it "is that of the deepest mount, and there of the latest" do
      File.write(mounts, "a / ext4 rw 0 0\nb #{@folder} xfs rw 0 0\nc #{@folder} tmpfs rw 0 0\nd #{@folder}-2 proc rw 0 0\n")
      expect(said).to start_with("tmpfs, whose memory")
    end

    it "has no name where none of the mounts that are seen has the path, as in a chroot" do
      File.write(mounts, "proc /proc proc rw 0 0\n")
      expect(said).to start_with("one whose memory")
    end

    it "has no name where the system does not tell" do
      expect(said).to start_with("one whose memory")
    end
  end
end
