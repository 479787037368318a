# frozen_string_literal: true

require "spec_helper"
require "plock/cli/doctor/host"
require "tmpdir"

RSpec.describe "The report of plock doctor on this host:" do
  describe "the path" do
    def said(path)
      finding = Plock::CLI::Doctor::Place.run(Struct.new(:store).new(Struct.new(:path).new(path)))
      [finding.level.to_s, finding.message]
    end

    around do |example|
      before = ENV.to_h
      ENV.update(
        "XDG_RUNTIME_DIR" => "/run/user/1", "TMPDIR" => "/var/tmp", "RAILS_ENV" => nil,
        "RACK_ENV" => nil, "APP_ENV" => nil
      )
      example.run
    ensure
      ENV.replace(before)
    end

    it "is fine if it is named" do
      expect(said("/var/lib/app/locks")).to match ["fine", %r{use /var/lib/app/locks\z}]
    end

    it "may differ elsewhere if it comes from the environment, and doctor says for whom" do
      expect(said("/run/user/1/plock/locks")).to match [
        "advice",
        /XDG_RUNTIME_DIR names: .* cron and in services/
      ]
      %w[/var/tmp /tmp].each do |folder|
        expect(said("#{folder}/plock-#{Process.euid}/locks")).to match [
          "advice",
          /PrivateTmp= and in a container/
        ]
      end
    end
  end

  describe "the file system" do
    around do |example|
      Dir.mktmpdir("plock-doctor") { |folder| (@folder = File.realpath(folder)) && example.run }
    end

    let(:mounts) { "#{@folder}/mounts" }

    before { stub_const("Plock::CLI::Doctor::FileSystem::MOUNTS", mounts) }

    def said
      server = Struct.new(:store).new(Struct.new(:path).new("#{@folder}/locks"))
      Plock::CLI::Doctor::FileSystem.run(server).message
    end

    it "is that of the deepest mount, and of the latest mount there" do
      File.write(mounts, <<~MOUNTS)
        a / ext4 rw 0 0
        b #{@folder} xfs rw 0 0
        c #{@folder} tmpfs rw 0 0
        d #{@folder}-2 proc rw 0 0
      MOUNTS
      expect(said).to start_with("tmpfs, whose memory")
    end

    it "has no name if no visible mount has the path, as in a chroot" do
      File.write(mounts, "proc /proc proc rw 0 0\n")
      expect(said).to start_with("one whose memory")
    end

    it "has no name if the system does not list mounts" do
      expect(said).to start_with("one whose memory")
    end
  end
end
